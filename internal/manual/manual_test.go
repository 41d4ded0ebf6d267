package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/identity"
)

const uid = "0b4a1c1e-6f0e-4f0c-9b0a-3d9f3f1f2a11"

func job() identity.Object {
	return identity.Object{APIVersion: "batch/v1", Kind: "Job", Namespace: "ns", Name: "job-1", UID: uid}
}

// A6.13, A6.7: the whole line, as a person sees it.
func TestA6_13_Line(t *testing.T) {
	for _, row := range []struct{ apiVersion, kind, path, policy string }{
		{"batch/v1", "Job", "/apis/batch/v1/namespaces/ns/jobs/job-1", "Foreground"},
		{"v1", "Pod", "/api/v1/namespaces/ns/pods/job-1", "Foreground"},
		{"v1", "Secret", "/api/v1/namespaces/ns/secrets/job-1", "Orphan"},
		{"networking.k8s.io/v1", "NetworkPolicy", "/apis/networking.k8s.io/v1/namespaces/ns/networkpolicies/job-1", "Orphan"},
	} {
		object := job()
		object.APIVersion, object.Kind = row.apiVersion, row.kind
		got, err := DeleteCommand("/k/config", "ctx", object)
		want := `printf '%s' '{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"` + uid + `"},"propagationPolicy":"` + row.policy + `"}'` +
			` | kubectl --kubeconfig '/k/config' --context 'ctx' delete --raw ` + row.path + ` -f -`
		if err != nil || got != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
}

// A7.1, A6.13: only UUIDs and known, well-formed places enter a command.
func TestA6_13_Refused(t *testing.T) {
	for name, spoil := range map[string]func(*identity.Object, *string){
		"no uid":             func(o *identity.Object, _ *string) { o.UID = "" },
		"injected uid":       func(o *identity.Object, _ *string) { o.UID = uid + `"}}';rm -rf ~;'` },
		"upper-case uid":     func(o *identity.Object, _ *string) { o.UID = strings.ToUpper(uid) },
		"injected name":      func(o *identity.Object, _ *string) { o.Name = "a;b" },
		"name in the path":   func(o *identity.Object, _ *string) { o.Name = "../secrets/s" },
		"injected namespace": func(o *identity.Object, _ *string) { o.Namespace = "$(id)" },
		"unknown kind":       func(o *identity.Object, _ *string) { o.Kind = "Node" },
		"newline":            func(_ *identity.Object, s *string) { *s = "a\nb" },
		"terminal escape":    func(_ *identity.Object, s *string) { *s = "a\x1b[2Jb" },
		"no UTF-8":           func(_ *identity.Object, s *string) { *s = "a\xff" },
		"right to left":      func(_ *identity.Object, s *string) { *s = "a\u202eb" },
	} {
		object, text := job(), "x"
		spoil(&object, &text)
		if line, err := DeleteCommand(text, "c", object); err == nil {
			t.Errorf("%s: %s", name, line)
		}
		if line, err := DeleteCommand("k", text, object); err == nil {
			t.Errorf("%s: %s", name, line)
		}
	}
}

// A shell hands kubectl exactly the arguments and the body that were meant,
// whatever the operator's file and context are called.
func TestAShellReadsItBack(t *testing.T) {
	dir := t.TempDir()
	stub := "#!/bin/sh\nfor a in \"$@\"; do printf '%s\\n' \"$a\"; done\ncat\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, hostile := range []string{"plain", "with space", "it's", `"quoted"`, "$HOME", "`id`", "$(id)", "a;b|c&d", "*", "-f", `back\slash`, "ünïcode"} {
		line, err := DeleteCommand(hostile, hostile, job())
		if err != nil {
			t.Fatal(err)
		}
		shell := exec.CommandContext(t.Context(), "sh", "-c", line)
		shell.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
		out, err := shell.CombinedOutput()
		want := strings.Join([]string{"--kubeconfig", hostile, "--context", hostile, "delete", "--raw", "/apis/batch/v1/namespaces/ns/jobs/job-1", "-f", "-",
			`{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"` + uid + `"},"propagationPolicy":"Foreground"}`}, "\n")
		if err != nil || string(out) != want {
			t.Errorf("%q: got %q, %v", hostile, out, err)
		}
	}
}
