package podrunner

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestExpandAsAKubeletDoes(t *testing.T) {
	vars := &variables{value: map[string]string{"A": "1", "A.b-c": "2", "EMPTY": "", "NESTED": "$(A)"}}
	for text, want := range map[string]string{
		"$(A)": "1", "x$(A)y$(A.b-c)": "x1y2", "$(EMPTY)": "", "$(NONE)": "$(NONE)", "$$(A)": "$(A)", "$$$(A)": "$1",
		"$A": "$A", "$(A": "$(A", "100%$": "100%$", "$(NESTED)": "$(A)", "$()": "$()",
	} {
		if got := expand(text, vars); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// A new version appears as a whole, and the old one goes.
func TestPublishedFilesAreReplacedAtOnce(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"old", "new"} {
		if err := publishFiles(dir, payload{"token": {[]byte(text), 0o400}, "deep/er/file": {[]byte(text), 0o640}}); err != nil {
			t.Fatal(err)
		}
		for name, mode := range map[string]os.FileMode{"token": 0o400, "deep/er/file": 0o640} {
			got, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || string(got) != text {
				t.Errorf("%s holds %q, %v; want %q", name, got, err, text)
			}
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s has the mode %v, %v", name, info.Mode(), err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 { // ..data, one version, token, deep
		t.Errorf("the volume holds %v, %v", entries, err)
	}
}

func TestSubPathIsNoLink(t *testing.T) {
	target := filepath.Join(t.TempDir(), "etc", "one")
	files := payload{"a/b": {[]byte("ab"), 0o600}, "a/c/d": {[]byte("acd"), 0o600}, "other": {[]byte("o"), 0o600}}
	if err := writeSubPath(target, "a", files); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"b": "ab", "c/d": "acd"} {
		if got, err := os.ReadFile(filepath.Join(target, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(target, "other")); err == nil {
		t.Error("what is beside the subPath is there")
	}
}

func newLog(t *testing.T) *logFile {
	t.Helper()
	log, err := createLog(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// A follower sees what is written later, and is released by the end.
func TestFollowerSeesTheEnd(t *testing.T) {
	log := newLog(t)
	log.write("stdout", []byte("one"))
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := log.send(context.Background(), w, &corev1.PodLogOptions{Follow: true}, func() {})
		_ = w.Close()
		ended <- err
	}()
	first := make([]byte, len("one\n"))
	if _, err := io.ReadFull(r, first); err != nil || string(first) != "one\n" {
		t.Fatalf("%q, %v", first, err)
	}
	log.write("stderr", []byte("two"))
	log.finish()
	rest, err := io.ReadAll(r)
	if err != nil || string(rest) != "two\n" {
		t.Errorf("then %q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	log.write("stdout", []byte("after the end")) // by a process that kept the pipe
	var all bytes.Buffer
	if err := log.send(context.Background(), &all, &corev1.PodLogOptions{}, func() {}); err != nil || all.String() != "one\ntwo\n" {
		t.Errorf("in the end the log is %q, %v", all.String(), err)
	}
}

func TestFollowerMayLeave(t *testing.T) {
	log := newLog(t)
	defer log.finish()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.send(ctx, io.Discard, &corev1.PodLogOptions{Follow: true}, func() {}); err != nil {
		t.Error(err)
	}
}

func TestCopyEndsAnUnfinishedLine(t *testing.T) {
	log := newLog(t)
	log.copy("stdout", strings.NewReader("a\n\nb"))
	log.finish()
	tail, stderr := int64(2), corev1.LogStreamStderr
	for want, options := range map[string]corev1.PodLogOptions{"a\n\nb\n": {}, "\nb\n": {TailLines: &tail}, "": {Stream: &stderr}} {
		var got bytes.Buffer
		if err := log.send(t.Context(), &got, &options, func() {}); err != nil || got.String() != want {
			t.Errorf("the log is %q, %v; want %q", got.String(), err, want)
		}
	}
}

// A reason that no longer holds has to be emptied by name: the patch merges.
func TestStatusPatchEmptiesReasons(t *testing.T) {
	patch, err := statusPatch("u1", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized, Reason: "R"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metadata struct{ UID string }
		Status   struct {
			Conditions []struct {
				Type   string
				Reason *string
			}
		}
	}
	if err := json.Unmarshal(patch, &got); err != nil {
		t.Fatal(err)
	}
	c := got.Status.Conditions
	if got.Metadata.UID != "u1" || len(c) != 2 || c[0].Reason == nil || *c[0].Reason != "" || *c[1].Reason != "R" {
		t.Errorf("the patch is %s", patch)
	}
}
