package cleanup

import (
	"context"
	"errors"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/cleanup/advice"
	"github.com/holdfast-project/holdfast/internal/cleanup/decide"
	. "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// refuses answers a verb on one kind with these words, for ever.
func (b *bench) refuses(verb, kind, words string) {
	b.cluster.before = func(asked string, object identity.Object) error {
		if asked == verb && object.Kind == kind {
			return errors.New(words)
		}
		return nil
	}
}

// replaced puts somebody else's object under a name.
func (b *bench) replaced(object identity.Object) {
	object.UID = UID("stranger")
	b.cluster.put(object)
}

// copied puts a Pod that somebody made from a copy of ours.
func (b *bench) copied() {
	pod := identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: Namespace, Name: "debug-copy", UID: UID("stranger")}
	nonce := b.inventory.Resources[0].Nonce()
	b.cluster.put(pod, func(m *kube.Meta) { m.Nonce = nonce })
}

// A6.9, A6.13: whatever stands in the way, the result says why, in the server's own
// words where a server has said it, and the summary says that too and how to go on. A
// reason that is added has to be added here.
func TestA6_13_EveryReasonIsToldWithItsCauseAndTheWayOn(t *testing.T) {
	const said = "403 Forbidden: the owner of this says why"
	const again, byHand = "run cleanup again", "reconcile --evidence-dir"
	rows := map[decide.Cause]struct {
		steps   []Step
		spoil   func(b *bench)
		because string
		wayOn   string
	}{
		decide.ClusterUnproven:       {[]Step{Acknowledged}, func(b *bench) { b.refuses("get", "Namespace", said) }, said, again},
		decide.JobConflict:           {[]Step{Acknowledged, Acknowledged, WithChild}, func(b *bench) { b.replaced(b.object("migration")) }, UID("stranger"), again},
		decide.ChildConflict:         {[]Step{Acknowledged, Acknowledged, WithChild}, func(b *bench) { b.replaced(b.inventory.Resources[2].Children()[0]); b.refuses("delete", "Job", said) }, said, again},
		decide.PodOrphaned:           {[]Step{Acknowledged, Acknowledged, WithChild}, (*bench).copied, UID("stranger"), again},
		decide.JobRemaining:          {[]Step{Acknowledged, Acknowledged, WithChild}, func(b *bench) { b.refuses("delete", "Job", said) }, said, again},
		decide.JobUnreadable:         {[]Step{Acknowledged, Acknowledged, WithChild}, func(b *bench) { b.refuses("get", "Pod", said) }, said, again},
		decide.PodsUnreadable:        {[]Step{Acknowledged}, func(b *bench) { b.refuses("list", "Pod", said) }, said, again},
		decide.JobCreateUncertain:    {[]Step{Acknowledged, Acknowledged, Uncertain}, func(*bench) {}, "its outcome is not on record", byHand},
		decide.JobUnexplained:        {[]Step{Acknowledged}, func(b *bench) { b.replaced(b.object("api")) }, UID("stranger"), again},
		decide.JobNameUnreadable:     {[]Step{Acknowledged}, func(b *bench) { b.refuses("get", "Job", said) }, said, again},
		decide.CreateUncertain:       {[]Step{Acknowledged, Uncertain}, func(*bench) {}, "its outcome is not on record", byHand},
		decide.DependencyConflict:    {[]Step{Acknowledged}, func(b *bench) { b.replaced(b.object("secret")) }, UID("stranger"), again},
		decide.DependencyRemaining:   {[]Step{Acknowledged}, func(b *bench) { b.refuses("delete", "Secret", said) }, said, again},
		decide.DependencyUnreadable:  {[]Step{Acknowledged}, func(b *bench) { b.refuses("get", "Secret", said) }, said, again},
		decide.DependencyUnexplained: {[]Step{Acknowledged}, func(b *bench) { b.replaced(b.object("network-policy")) }, UID("stranger"), again},
		decide.NameUnreadable:        {[]Step{Acknowledged}, func(b *bench) { b.refuses("get", "NetworkPolicy", said) }, said, again},
	}
	for _, cause := range causesOfTheDecision(t) {
		row, ok := rows[cause]
		if !ok {
			t.Errorf("nothing shows how %s is told", cause)
			continue
		}
		bubble(t, string(cause), func(t *testing.T) {
			b := newBench(t, row.steps...)
			row.spoil(b)
			e := newEngine(b.config(b.record()), time.Now())
			c, err := e.run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(c.Reasons, func(r decide.Reason) bool { return r.Cause == cause })
			if at < 0 {
				t.Fatalf("the reasons are %+v", c.Reasons)
			}
			result := e.result(c, time.Minute)
			if reason := result.Reasons[at]; !strings.Contains(reason, row.because) {
				t.Errorf("the reason is told without its cause: %q", reason)
			}
			lines := advice.Summary(b.inventory, result, "/e/preflight-cleanup.XXXXXXXX/preflight-cleanup-result.json")
			summary := strings.Join(lines, "\n")
			for _, want := range []string{row.because, row.wayOn, "/e/preflight-cleanup.XXXXXXXX/preflight-cleanup.err"} {
				if !strings.Contains(summary, want) {
					t.Errorf("the summary does not say %q:\n%s", want, summary)
				}
			}
			ref := c.Reasons[at].Ref
			if ref.Slot == "" {
				return // it is about no resource
			}
			// The paragraph of the resource or name says both by itself.
			paragraph := paragraphOf(lines, "("+ref.String()+")")
			if !strings.Contains(paragraph, row.wayOn) {
				t.Errorf("no way on:\n%s", paragraph)
			}
			if row.because == said && !strings.Contains(paragraph, said) {
				t.Errorf("no cause:\n%s", paragraph)
			}
		})
	}
}

// causesOfTheDecision are all that it can give.
func causesOfTheDecision(t *testing.T) (causes []decide.Cause) {
	source, err := os.ReadFile("decide/barrier.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`\bCause += "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		causes = append(causes, decide.Cause(found[1]))
	}
	if len(causes) < 16 {
		t.Fatalf("only %d causes are found: %v", len(causes), causes)
	}
	return causes
}

// paragraphOf is the line that ends so, with those that are indented below it.
func paragraphOf(lines []string, end string) string {
	at := slices.IndexFunc(lines, func(line string) bool { return !strings.HasPrefix(line, " ") && strings.HasSuffix(line, end) })
	if at < 0 {
		return "there is no paragraph that ends in " + end + "\n"
	}
	after := lines[at+1:]
	if n := slices.IndexFunc(after, func(line string) bool { return !strings.HasPrefix(line, " ") }); n >= 0 {
		after = after[:n]
	}
	return lines[at] + "\n" + strings.Join(after, "\n")
}

// A6.9, A6.13: a Pod that somebody copied from ours hides neither that the Job is
// there nor what refused its deletion, in the result and in what a person reads.
func TestA6_13_AnOrphanHidesNoRefusedDeletion(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild)
		b.copied()
		b.refuses("delete", "Job", "403 Forbidden: may not delete jobs")
		outcome := b.run()
		if got := b.outcomes(outcome.Result); !strings.HasPrefix(got, "migration=remaining secret=retained ") {
			t.Errorf("got %s", got)
		}
		told := strings.Join(advice.Summary(b.inventory, outcome.Result, outcome.Path), "\n")
		for _, text := range []string{outcome.Result.Resources[0].Detail, strings.Join(outcome.Result.Reasons, "\n"), told} {
			for _, want := range []string{"debug-copy", "is not owned by", b.object("migration").String() + " is still there", "may not delete jobs"} {
				if !strings.Contains(text, want) {
					t.Errorf("it does not say %q:\n%s", want, text)
				}
			}
			if strings.Contains(text, "runs on without it") {
				t.Errorf("the Job is there:\n%s", text)
			}
		}
		if want := path.Join(path.Dir(outcome.Path), "preflight-cleanup.err"); !strings.Contains(told, want) {
			t.Errorf("%s is not named:\n%s", want, told)
		}
	})
}

// A6.8, A6.9: whatever a server says, and however often, takes a bounded place in the
// files, and is cut only when nothing of a Secret value is in it any more.
func TestA6_9_WhatAServerSaysIsBounded(t *testing.T) {
	for _, refused := range []struct{ verb, kind string }{{"delete", "Job"}, {"get", "Job"}, {"list", "Pod"}, {"get", "Namespace"}} {
		bubble(t, refused.verb+" "+refused.kind, func(t *testing.T) {
			b := newBench(t, Acknowledged, Acknowledged, WithChild)
			b.refuses(refused.verb, refused.kind, strings.Repeat("hunter2", 100_000))
			config := b.config(b.record())
			config.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
			outcome, err := Run(context.Background(), config)
			if err != nil {
				t.Fatal(err)
			}
			lines := string(b.read(path.Join(path.Dir(outcome.Path), "preflight-cleanup.err")))
			for line := range strings.Lines(lines) {
				if len(line) > 4<<10+1 {
					t.Fatalf("a line has %d bytes", len(line))
				}
			}
			result := string(b.read(outcome.Path))
			if len(result) > 128<<10 {
				t.Errorf("the result has %d bytes", len(result))
			}
			for name, text := range map[string]string{"error file": lines, "result": result} {
				if strings.Contains(text, "hunt") || !strings.Contains(text, "[redacted]") || !strings.Contains(text, "…") {
					t.Errorf("the %s ends with %q", name, text[max(0, len(text)-200):])
				}
			}
		})
	}
}
