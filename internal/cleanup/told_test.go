package cleanup

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
)

// A6.2, A6.10: whichever reading of the cluster's identity fails, nothing is claimed
// that rests on it and nothing is deleted after it; the result says why it failed, and
// the same command heals it.
func TestA6_2_EachFailedReadingOfTheIdentity(t *testing.T) {
	for reading, want := range []string{
		"migration=unreadable secret=retained network-policy=retained ",
		"migration=unreadable secret=retained network-policy=retained ",
		"migration=unreadable secret=unreadable network-policy=unreadable ",
	} {
		for _, name := range []string{Namespace, "kube-system"} {
			bubble(t, name, func(t *testing.T) {
				b := newBench(t, Acknowledged, Acknowledged, WithChild)
				readings := 0
				b.cluster.before = func(_ string, object identity.Object) error {
					if object.Kind == "Namespace" && object.Name == name {
						if readings++; readings == reading+1 {
							return errors.New("401 Unauthorized: the login has expired")
						}
					}
					return nil
				}
				r := b.run().Result
				if got := b.outcomes(r); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "incomplete") || r.Verdict.ExitCode() != 1 {
					t.Errorf("reading %d: got %s", reading+1, got)
				}
				if !strings.Contains(r.Reasons[0], "could not be read") || !strings.Contains(r.Reasons[0], "the login has expired") {
					t.Errorf("reading %d: the reason is not told: %q", reading+1, r.Reasons)
				}
				if deletes := len(b.cluster.deletes()); deletes != []int{0, 1, 3}[reading] {
					t.Errorf("reading %d: sent %d DELETEs", reading+1, deletes)
				}
				b.cluster.before = nil
				if r := b.run().Result; !r.Complete {
					t.Errorf("reading %d: the same command again: %v", reading+1, r.Reasons)
				}
			})
		}
	}
}

// A6.5, A6.9: the result itself says what refused a deletion, of each kind of resource,
// redacted; and no longer once the deletion was accepted.
func TestA6_9_ResultSaysWhatRefusedADeletion(t *testing.T) {
	for _, kind := range []string{"Job", "Secret", "NetworkPolicy"} {
		for _, times := range []int32{1, 1000} {
			bubble(t, kind, func(t *testing.T) {
				b := newBench(t, Acknowledged, Acknowledged, WithChild)
				var asked atomic.Int32
				b.cluster.before = func(verb string, object identity.Object) error {
					if verb == "delete" && object.Kind == kind && asked.Add(1) <= times {
						return errors.New("guard.example.com says no to hunter2")
					}
					return nil
				}
				config := b.config(b.record())
				config.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
				outcome, err := Run(context.Background(), config)
				if err != nil {
					t.Fatal(err)
				}
				data := string(b.read(outcome.Path))
				want := 2 // the reason, and the resource's own detail
				switch {
				case times == 1:
					want = 0
				case kind == "Job":
					want = 3 // and what the dependencies are kept for
				}
				if got := strings.Count(data, "its deletion: deleting "+kind); got != want || strings.Count(data, "guard.example.com says no to [redacted]") != want || strings.Contains(data, "hunter2") || outcome.Result.Complete != (times == 1) {
					t.Errorf("told %d times, want %d:\n%s", got, want, data)
				}
			})
		}
	}
}
