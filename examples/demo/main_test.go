package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The demo is what a preflight of the example chart really runs (A4.4): each
// of its answers is relied on by an end-to-end test.
func TestRun(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc/demo"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/demo/token"), []byte("the-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := map[string]string{
		"HOLDFAST_POD_ROOT": root, "DEMO_TOKEN_FILE": "/etc/demo/token", "DEMO_DATABASE_URL": "the-url", "DEMO_RELEASE": "demo",
	}
	for name, row := range map[string]struct {
		args    string
		without string
		set     string
		out     string
		err     string
	}{
		"a start":                          {args: "api --check", out: "api of demo can start\n"},
		"a migration":                      {args: "migration", out: "migration of demo done\n"},
		"a server until it is told to end": {args: "worker", out: "worker of demo is running\n"},
		"identity without credentials":     {args: "worker --identity", without: "DEMO_DATABASE_URL", out: "demo worker 1.0.0\n"},
		"a start without the environment":  {args: "api --check", without: "DEMO_DATABASE_URL", err: "DEMO_DATABASE_URL is empty"},
		"a start without the file":         {args: "api --check", without: "HOLDFAST_POD_ROOT", err: "reading the token"},
		"told to fail":                     {args: "api --check", set: "fail", err: "told to fail"},
		"told to print its Secret":         {args: "api --check", set: "print-secret", out: "database the-url\ntoken the-token\napi of demo can start\n"},
		"told something else":              {args: "api --check", set: "dance", err: `"dance" is not known`},
		"no component":                     {err: "usage"},
		"another component":                {args: "web", err: "usage"},
	} {
		t.Run(name, func(t *testing.T) {
			env := func(key string) string {
				if key == "DEMO_BEHAVIOUR" {
					return row.set
				}
				if key == row.without {
					return ""
				}
				return base[key]
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			var out bytes.Buffer
			err := run(ended, strings.Fields(row.args), env, &out)
			if out.String() != row.out {
				t.Errorf("it prints %q, want %q", out.String(), row.out)
			}
			if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("it ends with %v, want %q", err, row.err)
			}
		})
	}
}
