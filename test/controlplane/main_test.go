package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-project/holdfast/test/controlplane"
)

// shared is the control plane of all tests that need nothing special of theirs.
var shared *controlplane.ControlPlane

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	cp, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = cp
	code := m.Run()
	if err := cp.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestAnswers(t *testing.T) {
	version, err := shared.Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != controlplane.KubernetesVersion {
		t.Errorf("server says it is %s, want %s", version.GitVersion, controlplane.KubernetesVersion)
	}
}
