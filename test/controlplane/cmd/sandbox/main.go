// Command sandbox starts a real Kubernetes control plane on this machine and keeps it
// until Ctrl-C, or until the program that started it is gone:
//
//	go run ./test/controlplane/cmd/sandbox --image example.test/tool=/usr/local/bin/tool
//
// It owns the flags and what is printed; package controlplane does the work. On
// stdout are plain lines "name value", the first of them the path of a kubeconfig.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-project/holdfast/test/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := whileParentLives(ctx)
	defer cancel()
	cp, err := controlplane.Start(ctx, opts)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "kubeconfig %s\nstate      %s\nlogs       %s\nuse        export KUBECONFIG=%s\nstop       Ctrl-C\n",
		cp.AdminKubeconfig(), cp.Dir(), filepath.Join(cp.Dir(), "log"), cp.AdminKubeconfig())
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, cp.Stop())
}

func parse(args []string, stderr io.Writer) (controlplane.Options, error) {
	opts := controlplane.Options{Images: map[string]controlplane.Program{}}
	flags := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.Dir, "dir", "", "keep the state in this `directory`, and go on from what is there (default: a temporary one)")
	flags.IntVar(&opts.KwokNodes, "kwok-nodes", 0, "`number` of nodes on which Pods run without programs")
	flags.Func("image", "`REF=PROGRAM`: run the program for Pods of this image (\"*\" for any); may be repeated", func(value string) error {
		return addImage(opts.Images, value)
	})
	flags.Usage = func() {
		_, _ = fmt.Fprintln(stderr, "usage: sandbox [--dir DIR] [--kwok-nodes N] [--image REF=PROGRAM]...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if flags.NArg() > 0 {
		return opts, fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	}
	return opts, nil
}

// addImage splits at the first "=": a reference has none, a path may.
func addImage(images map[string]controlplane.Program, value string) error {
	reference, path, ok := strings.Cut(value, "=")
	if !ok || reference == "" || path == "" {
		return fmt.Errorf("%q is not REF=PROGRAM", value)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("finding the program of image %s: %w", reference, err)
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("program %s of image %s is not an executable file; give the path of one", path, reference)
	}
	images[reference] = controlplane.Program{Path: path}
	return nil
}

// whileParentLives ends when this process gets another parent. `go run` passes no
// signal on when it is killed itself, and a forgotten control plane is a heavy guest.
func whileParentLives(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for os.Getppid() == parent {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
		cancel()
	}()
	return ctx, cancel
}
