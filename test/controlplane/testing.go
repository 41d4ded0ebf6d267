package controlplane

import (
	"context"
	"testing"
)

// StartForTest starts a control plane that ends with the test. A package with many
// tests starts one in TestMain instead (Start takes seconds), and gives each test a
// namespace of its own.
func StartForTest(tb testing.TB, opts Options) *ControlPlane {
	tb.Helper()
	// Not tb.Context(): that ends before the cleanups run, and a cleanup of the test
	// may still need the API server.
	cp, err := Start(context.Background(), opts)
	if err != nil {
		tb.Fatalf("starting a control plane: %v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() && opts.Dir != "" {
			tb.Logf("the control plane's state and logs are in %s", cp.Dir())
		}
		if err := cp.Stop(); err != nil {
			tb.Errorf("stopping the control plane: %v", err)
		}
	})
	return cp
}
