package controlplane

import (
	"fmt"
	"path/filepath"

	"github.com/holdfast-project/holdfast/test/controlplane/internal/nodeconfig"
)

// How a Pod gets to a node of kwok: by a toleration of the taint and a nodeSelector
// with the label of this key and value. Nothing gets there by accident.
const (
	KwokNodeLabel = "holdfast.test/kubelet"
	KwokNodeValue = "kwok"
)

// NodeName is the node on which the Pod runner runs programs.
const NodeName = nodeconfig.NodeName

// Program is what an image stands for when a Pod names it. The Pod runner starts
//
//	executable  Path
//	argv[0]     the first word of the container's command, or Path without a command
//	argv[1:]    Args, the rest of the command, the container's args
//
// so a program sees what it would see in the image, and Args is for what only the
// stand-in needs. The network is the machine's own; the file system too, but for the
// container's mounts, which are below the directory in the variable HOLDFAST_POD_ROOT.
// When the Pod mounts a ServiceAccount token, KUBECONFIG names a kubeconfig with it.
type Program = nodeconfig.Program

// AnyImage as a key of Options.Images covers every image that has no program of its
// own. Without it, such an image cannot be pulled, as in a registry that lacks it.
const AnyImage = nodeconfig.AnyImage

// Behaviours of images that no program stands for, as Program.Behaviour: with them any
// image can be made to do what those below do.
const (
	Hang        = nodeconfig.Hang
	HangDeaf    = nodeconfig.HangDeaf
	PullError   = nodeconfig.PullError
	ConfigError = nodeconfig.ConfigError
)

// Images that are always there. Their containers run nothing.
const (
	// ImageHang is running and ready until it is stopped.
	ImageHang = "holdfast.test/hang"
	// ImageHangDeaf is the same, but takes no notice of SIGTERM.
	ImageHangDeaf = "holdfast.test/hang-deaf"
	// ImagePullError can never be pulled.
	ImagePullError = "holdfast.test/pull-error"
	// ImageConfigError waits with the reason CreateContainerConfigError.
	ImageConfigError = "holdfast.test/config-error"
)

// RegisterImage registers a program for containers that start from now on.
func (cp *ControlPlane) RegisterImage(reference string, program Program) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.setImages(map[string]Program{reference: program})
}

// setImages adds to the registered images and tells the Pod runner.
func (cp *ControlPlane) setImages(more map[string]Program) error {
	if cp.images == nil {
		cp.images = nodeconfig.Images{
			ImageHang:        {Behaviour: nodeconfig.Hang},
			ImageHangDeaf:    {Behaviour: nodeconfig.HangDeaf},
			ImagePullError:   {Behaviour: nodeconfig.PullError},
			ImageConfigError: {Behaviour: nodeconfig.ConfigError},
		}
	}
	for reference, program := range more {
		if program.Path != "" {
			path, err := filepath.Abs(program.Path) // the runner's directory is another
			if err != nil {
				return fmt.Errorf("finding the program of image %s: %w", reference, err)
			}
			program.Path = path
		}
		cp.images[reference] = program
	}
	return nodeconfig.Write(cp.path("images.json"), cp.images)
}
