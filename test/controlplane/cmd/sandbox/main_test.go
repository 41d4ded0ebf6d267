package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const asSandbox = "HOLDFAST_SANDBOX_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(asSandbox) {
	case "sandbox":
		main()
	case "shell": // what `go run` is to the sandbox: a parent that may be killed
		child := exec.Command(os.Args[0], os.Args[1:]...)
		child.Env = append(os.Environ(), asSandbox+"=sandbox")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Run(); err != nil {
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

func TestRefusals(t *testing.T) {
	for want, args := range map[string][]string{
		"is not REF=PROGRAM":     {"--image", "example.test/tool"},
		"not an executable file": {"--image", "example.test/tool=/etc/hostname-that-is-not"},
		"unexpected argument":    {"up"},
		"help requested":         {"--help"},
	} {
		var out, errOut bytes.Buffer
		err := run(context.Background(), args, &out, &errOut)
		if err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%q gives %v and prints %q, want %q", args, err, out.String(), want)
		}
		if want == "help requested" && !errors.Is(err, flag.ErrHelp) {
			t.Errorf("help is %v", err)
		}
	}
}

// The sandbox serves what it prints, and ends with its parent.
func TestSandboxEndsWithItsParent(t *testing.T) {
	dir := t.TempDir()
	shell := exec.CommandContext(t.Context(), os.Args[0], "--dir", dir, "--image", "example.test/tool="+os.Args[0])
	shell.Env = append(os.Environ(), asSandbox+"=shell")
	shell.Stderr = os.Stderr
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, ok := strings.CutPrefix(strings.TrimSpace(first), "kubeconfig ")
	if !ok || filepath.Dir(kubeconfig) != dir {
		t.Fatalf("the first line is %q", first)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(config).Discovery().ServerVersion(); err != nil {
		t.Errorf("the sandbox does not answer: %v", err)
	}
	if err := shell.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The sandbox holds the other end of the pipe until it ends.
	ended := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, lines); ended <- err }()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("30 s after its parent was killed the sandbox is there")
	}
	_ = shell.Wait()
	if _, err := kubernetes.NewForConfigOrDie(config).Discovery().ServerVersion(); err == nil {
		t.Error("the API server answers after the sandbox has ended")
	}
}
