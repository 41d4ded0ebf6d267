package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// undecodable are kubeconfigs that client-go's decoder answers with what they hold.
func undecodable() map[string]string {
	good := string(kubeconfig("", "token: planted-token-77"))
	return map[string]string{
		"two users of one name":  strings.Replace(good, "users:\n", "users:\n- name: u\n  user: {token: planted-token-77}\n- name: u\n  user: {}\n", 1),
		"users without a name":   strings.Replace(good, "users:\n", "users:\n- user: {token: planted-token-77}\n- user: {}\n", 1),
		"an alias as a password": strings.Replace(good, "planted", "*planted", 1),
		"a list as a password":   strings.Replace(good, "token: planted-token-77", "token: [planted-token-77]", 1),
		"a tab":                  strings.Replace(good, "token: planted-token-77", "token: planted-token-77\n\t- planted-token-77", 1),
	}
}

// A3.8, B8.3: a kubeconfig that cannot be decoded is refused without a word of what it
// holds, by the bytes (the run) and by the file (the controller, the operator's
// commands).
func TestNothingOfAKubeconfigIsQuoted(t *testing.T) {
	quoted := 0
	for name, text := range undecodable() {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, byBytes := New([]byte(text), "ctx", Options{})
		_, raw := clientcmd.BuildConfigFromFlags("", path)
		if byBytes == nil || raw == nil {
			t.Errorf("%s: accepted: %v, %v", name, byBytes, raw)
			continue
		}
		if strings.Contains(raw.Error(), "planted") {
			quoted++
		}
		for _, err := range []error{byBytes, UnquotedKubeconfig(raw)} {
			if strings.Contains(err.Error(), "planted") || !strings.Contains(err.Error(), "cannot be decoded") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if quoted < 3 {
		t.Errorf("client-go quotes %d of these files by itself: this test proves too little", quoted)
	}
}

// What an operator can act on is told as it is.
func TestWhatAKubeconfigLacksIsTold(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nowhere")
	_, err := clientcmd.BuildConfigFromFlags("", missing)
	if got := UnquotedKubeconfig(err); got == nil || !strings.Contains(got.Error(), missing) {
		t.Errorf("a file that is not there: %v", got)
	}
	if got := UnquotedKubeconfig(clientcmd.ErrEmptyConfig); !clientcmd.IsEmptyConfig(got) {
		t.Errorf("no configuration: %v", got)
	}
	if UnquotedKubeconfig(nil) != nil {
		t.Error("an error of nothing")
	}
	_, err = New([]byte(strings.Replace(string(kubeconfig("", "token: t")), "token: t", "token: t\n\t- x", 1)), "ctx", Options{})
	if err == nil || !strings.Contains(err.Error(), ", at line ") {
		t.Errorf("without its line: %v", err)
	}
}
