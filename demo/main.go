// Command demo shows on a real control plane what Holdfast is for: a preflight
// that succeeds, one that is killed in the middle and cleaned up, one that is
// killed in the one instant which nothing on the disk can settle, and a stuck
// HelmRelease that is deleted, without a fence and with one.
//
// It owns the story and checks it: when an exit code or what is left in the
// cluster is not what the story says, the demo fails. It uses the built commands
// as an operator would, and must not import the product's packages.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-project/holdfast/test/controlplane"
)

func main() {
	// The stand-in for helm-controller would complain that nobody takes its words.
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	if _, err := os.Stat("go.mod"); err != nil {
		return errors.New("run it from the root of a checkout: make demo")
	}
	dir, err := workDirectory()
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		} else {
			err = fmt.Errorf("%w (its files are kept in %s)", err, dir)
		}
	}()
	program := filepath.Join(dir, "example-image")
	if err := command(ctx, "go", "build", "-o", program, "./examples/demo").Run(); err != nil {
		return fmt.Errorf("building the program of the example image: %w", err)
	}
	fmt.Fprintln(out, "Starting a control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, a Pod runner.")
	cp, err := controlplane.Start(ctx, controlplane.Options{Images: map[string]controlplane.Program{repository: {Path: program}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	s, err := newStage(ctx, cp, dir, out)
	if err != nil {
		return err
	}
	defer s.proxy.Close()
	for _, act := range []func(context.Context, *stage) error{success, killedBetweenSteps, killedBeforeTheReceipt, deletedWithoutFence, deletedInTheMiddle} {
		if err := act(ctx, s); err != nil {
			return err
		}
	}
	s.say("What was shown")
	fmt.Fprintln(out, summary)
	return nil
}

const summary = `  1. A preflight tried a candidate image in real Jobs, removed them and left nothing.
  2. One that was killed with SIGKILL left objects; its evidence named each with the UID
     that its own create had returned, and cleanup removed exactly those: exit 0.
  3. One that was killed between a create and its receipt left one slot that no evidence
     can settle. Cleanup said so (exit 1), kept what that Job might use, and left the
     decision to the release owner, with the exact command at hand.
  4. A stuck HelmRelease that was deleted left its resources behind, although nobody
     had suspended it: helm-controller had forgotten them.
  5. With flux-plunger, the delete in the middle of the recovery was held by the fence
     until the uninstall was proven, and nothing was left.`

// workDirectory is where the evidence goes. Not the temporary directory, which
// is a memory file system on many machines: evidence that a power cut erases is
// refused.
func workDirectory() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a place for the demo's evidence: %w", err)
	}
	parent := filepath.Join(cache, "holdfast")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("finding a place for the demo's evidence: %w", err)
	}
	return os.MkdirTemp(parent, "demo-")
}

// command dies with the demo, also when that is killed.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	return cmd
}
