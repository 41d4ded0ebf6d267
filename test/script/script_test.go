// Package script tests the command line from outside: exit codes, the sentence,
// that a file does not exist, and that not one connection was made.
package script

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/test/command"
)

func TestMain(m *testing.M) { os.Exit(withCommand(m)) }

// withCommand puts the built command in front of PATH for all scripts.
func withCommand(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-script-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := command.Build(dir, ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", os.Getenv("PATH"))
			path, err := exec.LookPath(command.Name)
			if err != nil {
				return err
			}
			root, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			env.Setenv("ROOT", root)
			env.Setenv("COMMAND", path)
			env.Values[holder{}] = map[string]*evidence.Dir{}
			return watchedServer(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"private":    private,
			"exits":      exits,
			"otherexits": otherExits,
			"sentence":   sentence,
			"evidence":   writeEvidence,
			"hold":       hold,
			"letgo":      letGo,
			"appendline": appendLine,
		},
	})
}

// watchedServer listens where the kubeconfig of every script points. A refusal
// sends nothing, so a single connection fails the script.
func watchedServer(env *testscript.Env) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var connections atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	env.Defer(func() {
		_ = listener.Close()
		<-done
		if n := connections.Load(); n != 0 {
			env.T().Fatal(fmt.Sprintf("%d connections were made to the cluster", n))
		}
	})
	env.Setenv("SERVER", "http://"+listener.Addr().String())
	return os.WriteFile(filepath.Join(env.WorkDir, "kubeconfig"), kubeconfig("http://"+listener.Addr().String()), 0o600)
}

func kubeconfig(server string) []byte {
	return []byte(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "` + server + `"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: prod, context: {cluster: c, user: u}}]
current-context: prod
`)
}

// private makes files private: testscript unpacks them as anybody's.
func private(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Check(os.Chmod(ts.MkAbs(name), 0o600))
	}
}

// exits runs the command and demands one exit code: "exits 2 --cleanup-preflight".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: exits code [argument...]")
	}
	otherExits(ts, neg, append([]string{args[0], command.Name}, args[1:]...))
}

// otherExits is exits for another program: "otherexits 2 ./other --cleanup-preflight".
func otherExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: otherexits code program [argument...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("running the command: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// sentence demands that stderr begins with exactly one sentence of the command,
// which holds all given parts, and that nothing is on stdout.
func sentence(ts *testscript.TestScript, _ bool, parts []string) {
	stderr := ts.ReadFile("stderr")
	first, rest, _ := strings.Cut(stderr, "\n")
	if !strings.HasPrefix(first, command.Name+": ") {
		ts.Fatalf("no sentence of the command in %q", stderr)
	}
	text := strings.TrimPrefix(first, command.Name+": ")
	if strings.HasSuffix(text, ".") || strings.ToLower(text[:1]) != text[:1] {
		ts.Fatalf("not in the command's voice: %q", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			ts.Fatalf("%q does not say %q", text, part)
		}
	}
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, command.Name+": hint: ") {
			ts.Fatalf("more than the sentence and its hint: %q", line)
		}
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("a refusal put %q on stdout", out)
	}
}

// holder is the key under which a script keeps the directory that it holds.
type holder struct{}

// hold takes the lock of an evidence directory as another process would: flock is
// by open file description, so this process's own is as foreign as any.
func hold(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := evidence.Open(durable.OS(), ts.MkAbs(args[0]))
	ts.Check(err)
	held := ts.Value(holder{}).(map[string]*evidence.Dir)
	held[args[0]] = dir
}

func letGo(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Value(holder{}).(map[string]*evidence.Dir)[args[0]].Close())
}

// appendLine changes a file's bytes and nothing else of it.
func appendLine(ts *testscript.TestScript, _ bool, args []string) {
	file, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	_, err = fmt.Fprintln(file, args[1])
	ts.Check(errors.Join(err, file.Close()))
}
