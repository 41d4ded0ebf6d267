package lab

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
)

// Tests says what the tests of one package share.
type Tests struct {
	// ControlPlane is what theirs has.
	ControlPlane controlplane.Options
	// SideBySide is how many run at a time. They wait far more than they compute:
	// two, as a machine of two cores is given, would leave it idle. Zero leaves it at
	// that.
	SideBySide int
	// HelmController runs beside them; nil for none.
	HelmController *helmcontroller.Options
	// Begin takes the Lab and prepares what is the package's own, before there is a
	// helm-controller.
	Begin func(context.Context, *Lab) error
	// End, which may be nil, judges what they left behind.
	End func() error
}

// Run runs them on a Lab of their own, and returns the exit code.
func (s Tests) Run(m *testing.M) int {
	code, err := s.run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	}
	return code
}

func (s Tests) run(m *testing.M) (int, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctrl.SetLogger(logr.Discard())                 // the stand-in's words; a test shows flux-plunger's when it fails
	slog.SetDefault(slog.New(slog.DiscardHandler)) // and Helm's, about what the tests provoke
	if s.SideBySide > 0 {
		flag.Parse()
		if err := flag.Set("test.parallel", strconv.Itoa(s.SideBySide)); err != nil {
			return 0, err
		}
	}
	cp, err := controlplane.Start(ctx, s.ControlPlane)
	if err != nil {
		return 0, err
	}
	defer func() { _ = cp.Stop() }() // the tests are over
	l, err := New(ctx, cp)
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	if err := s.Begin(ctx, l); err != nil {
		return 0, err
	}
	if s.HelmController != nil {
		if err := l.StartHelmController(ctx, *s.HelmController); err != nil {
			return 0, err
		}
	}
	code := m.Run()
	if s.End == nil {
		return code, nil
	}
	return code, s.End()
}
