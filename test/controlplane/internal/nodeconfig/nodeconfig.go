// Package nodeconfig is what package controlplane tells the Pod runner: where the
// API server is and which image stands for which program. It owns the format of the
// two files by which they talk, and no behaviour.
//
// It must not import anything but the standard library: both sides and every test
// that registers a program link it.
package nodeconfig

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// NodeName is the node that the Pod runner manages.
const NodeName = "local"

// AnyImage registers a program for every image that has none.
const AnyImage = "*"

// Behaviour is what a container does that has no program.
type Behaviour string

// The behaviours.
const (
	// Run starts the program. It is the default.
	Run Behaviour = ""
	// Hang is running and ready until the Pod is deleted or its deadline passes,
	// and ends at once on SIGTERM.
	Hang Behaviour = "Hang"
	// HangDeaf hangs, and does not end before the grace period has passed.
	HangDeaf Behaviour = "HangDeaf"
	// PullError waits for ever with the reason ImagePullBackOff.
	PullError Behaviour = "PullError"
	// ConfigError waits for ever with the reason CreateContainerConfigError.
	ConfigError Behaviour = "ConfigError"
)

// Program is what a registered image stands for.
type Program struct {
	// Path is the executable. It stands for every executable in the image.
	Path string `json:"path,omitempty"`
	// Args come after argv[0] and before what the Pod says.
	Args []string `json:"args,omitempty"`
	// Env is added to the environment ("NAME=value"); what the Pod says wins.
	Env []string `json:"env,omitempty"`
	// ImageID is what containerStatuses report. By default it is the digest in the
	// image's reference, or else one made from the program's content.
	ImageID string `json:"imageID,omitempty"`
	// Behaviour is for containers without a program.
	Behaviour Behaviour `json:"behaviour,omitempty"`
}

// Images maps references to programs. A key is an exact reference, or a repository
// (which covers all its tags and digests), or AnyImage; they are tried in this order.
type Images map[string]Program

// Lookup finds the program for a reference.
func (images Images) Lookup(reference string) (Program, bool) {
	for _, key := range []string{reference, Repository(reference), AnyImage} {
		if p, ok := images[key]; ok {
			return p, true
		}
	}
	return Program{}, false
}

// Repository is the reference without tag and digest.
func Repository(reference string) string {
	repository, _, _ := strings.Cut(reference, "@")
	// A colon before the last slash belongs to the registry's port.
	if colon := strings.LastIndexByte(repository, ':'); colon > strings.LastIndexByte(repository, '/') {
		repository = repository[:colon]
	}
	return repository
}

// Config is read by the Pod runner once, when it starts.
type Config struct {
	// Kubeconfig is the runner's own access to the API server.
	Kubeconfig string `json:"kubeconfig"`
	// Server and CA are what the Pods' kubeconfigs name.
	Server string `json:"server"`
	CA     string `json:"ca"`
	// Address is where the kubelet endpoint listens, with Certificate and Key;
	// clients need a certificate from ClientCA.
	Address     string `json:"address"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	ClientCA    string `json:"clientCA"`
	// Dir holds the Pods' directories.
	Dir string `json:"dir"`
	// Images is the file with the Images, read again for every container.
	Images string `json:"images"`
}

// Read decodes a JSON file into value.
func Read(path string, value any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the runner's configuration: %w", err)
	}
	if err := json.Unmarshal(text, value); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// Write replaces a JSON file by rename: a reader sees the old or the new one.
func Write(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // when it was not renamed
	_, err = tmp.Write(text)
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
