// Package preflight tests upgrade-production-images end to end: the shipped
// command against a real control plane whose Pods really run the example
// chart's program.
package preflight

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-project/holdfast/test/command"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

// world is what all tests share. It is written once, before the first of them.
var world struct {
	cluster *controlplane.ControlPlane
	// shipped is the command as it is released; killable is built with the tag
	// that lets a test kill it at one operation on its evidence.
	shipped, killable string
	root              string
}

// repository is the name under which the example chart's program is an image.
const repository = "registry.example/holdfast/demo"

// digest is the candidate's; the Pod runner reports it as the image's identity.
const digest = "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"

// candidate is the image that the tests preflight.
const candidate = repository + "@" + digest

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if err := knownFaults(); err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "holdfast-preflight-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := build(dir); err != nil {
		return fail(err)
	}
	cluster, err := controlplane.Start(context.Background(), controlplane.Options{
		Images: map[string]controlplane.Program{repository: {Path: filepath.Join(dir, "demo")}},
	})
	if err != nil {
		return fail(err)
	}
	world.cluster = cluster
	// These tests wait for a cluster and use little of the machine themselves; most
	// of a full sweep of faults waits for the 45 s of A6.3.
	parallel := "6"
	if os.Getenv("HOLDFAST_FAULTS") != "" {
		parallel = "16"
	}
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func build(dir string) (err error) {
	if world.root, err = filepath.Abs("../.."); err != nil {
		return err
	}
	for _, variant := range []struct {
		path *string
		tags string
	}{{&world.shipped, ""}, {&world.killable, "holdfast_killpoints"}} {
		into := filepath.Join(dir, "command"+variant.tags)
		if err := os.Mkdir(into, 0o700); err != nil {
			return err
		}
		if *variant.path, err = command.Build(into, variant.tags); err != nil {
			return err
		}
	}
	demo := exec.Command("go", "build", "-o", filepath.Join(dir, "demo"), "github.com/holdfast-project/holdfast/examples/demo")
	demo.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := demo.CombinedOutput(); err != nil {
		return fmt.Errorf("building the example's program: %w\n%s", err, out)
	}
	return nil
}
