package manual

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// words splits a line as a POSIX shell does, for a line that quotes with single
// quotes and backslashes outside of them alone. Any other character that means
// something to a shell is reported.
func words(t *testing.T, line string) (all []string) {
	t.Helper()
	var word strings.Builder
	quoted, started := false, false
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case quoted && r != '\'':
			word.WriteRune(r)
		case r == '\'':
			quoted, started = !quoted, true
		case r == '\\' && i+1 < len(runes):
			i++
			word.WriteRune(runes[i])
			started = true
		case r == ' ':
			if started {
				all = append(all, word.String())
			}
			word.Reset()
			started = false
		case r != '|' && strings.ContainsRune("\"`$&;<>()*?[]#~=%!{}\n\t", r):
			t.Fatalf("%q stands unquoted in %s", r, line)
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quoted {
		t.Fatalf("a quote is open at the end of %s", line)
	}
	return append(all, word.String())
}

// A6.13, A7.1: whatever a path, a context or a record says, the printed line is one
// pipe of two commands with exactly these arguments, and deletes nothing but this
// UID; what a terminal could not show as it is, is refused.
func FuzzDeleteCommand(f *testing.F) {
	f.Add("/k/config", "ctx", "batch/v1", "Job", "ns", "job-1", uid)
	f.Add("/it's here/config", "o'clock; rm -rf ~", "v1", "Secret", "ns", "s", uid)
	f.Add("\\'$(id)", "a`b`", "v1", "Pod", "ns", "../secrets/s", uid)
	f.Add("k", "c\u202e", "networking.k8s.io/v1", "NetworkPolicy", "ns", "n", strings.ToUpper(uid))
	f.Add("c\xff", "c", "batch/v1", "Job", "ns", "job-1", uid)
	f.Add("k", "c", "v1", "Node", "", "n", uid+"\n")
	f.Fuzz(func(t *testing.T, kubeconfig, contextName, apiVersion, kind, namespace, name, uid string) {
		object := identity.Object{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, UID: uid}
		line, err := DeleteCommand(kubeconfig, contextName, object)
		if err != nil {
			return
		}
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q cannot be shown", line)
		}
		got := words(t, line)
		if len(got) != 14 || got[0] != "printf" || got[1] != "%s" || got[3] != "|" || got[4] != "kubectl" ||
			got[6] != kubeconfig || got[8] != contextName || got[9] != "delete" || !strings.HasSuffix(got[11], "/"+name) {
			t.Fatalf("%s is read as %q", line, got)
		}
		var options struct {
			Preconditions struct{ UID string }
		}
		if err := json.Unmarshal([]byte(got[2]), &options); err != nil || options.Preconditions.UID != uid || !identity.ValidUID(uid) {
			t.Fatalf("%s is bound to %q (%v)", line, options.Preconditions.UID, err)
		}
	})
}
