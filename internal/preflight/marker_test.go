package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// duringMarker runs a preflight in which something happens at the first operation
// with which the marker of the migration's slot is made durable.
func duringMarker(t *testing.T, happen func(one *trial, first, second func())) *trial {
	t.Helper()
	one, profile := &trial{model: newModel(durabletest.New())}, exampleProfile(t)
	synctest.Test(t, func(t *testing.T) {
		one.config = config(t, one.model, profile)
		giveUp := make(chan struct{})
		one.config.GiveUp = giveUp
		ctx, first := context.WithCancel(context.Background())
		defer first()
		begun := false
		one.model.disk.Watch(func(op durabletest.Op) {
			if !begun && strings.Contains(op.Path, evidence.StartedFile(identity.SlotMigration)) {
				begun = true
				happen(one, first, func() { close(giveUp) })
			}
		})
		one.outcome, one.err = Run(ctx, one.config)
		if !begun {
			t.Error("the marker was never made")
		}
	})
	return one
}

// A4.1, A3.7: a signal that comes while the marker is made durable keeps the create
// from leaving, the second one too. That it never left is recorded, so that nothing
// is uncertain.
func TestA4_1_SignalDuringTheMarker(t *testing.T) {
	for signals := 1; signals <= 2; signals++ {
		t.Run(fmt.Sprint(signals, " signals"), func(t *testing.T) {
			one := duringMarker(t, func(_ *trial, first, second func()) {
				first()
				if signals == 2 {
					second()
				}
			})
			if !errors.Is(one.err, ErrInterrupted) || one.model.created != 2 {
				t.Errorf("%d creates were sent, and it ended with %v", one.model.created, one.err)
			}
			if slices.ContainsFunc(one.model.writes, func(w write) bool { return w.verb == "delete" }) {
				t.Errorf("an interrupted run deleted: %v", one.model.writes)
			}
			judgeUnsent(t, one)
		})
	}
}

// A4.1: a timeout that runs out there ends as one that runs out elsewhere, with
// everything removed.
func TestA4_1_TimeoutDuringTheMarker(t *testing.T) {
	one := duringMarker(t, func(one *trial, _, _ func()) { time.Sleep(one.config.Timeout + time.Second) })
	var failed *Failed
	if !errors.As(one.err, &failed) || !strings.Contains(one.err.Error(), "within --timeout 1m0s") || one.model.created != 2 {
		t.Errorf("%d creates were sent, and it ended with %v", one.model.created, one.err)
	}
	if left := one.model.left(); len(left) > 0 || one.outcome.Result.Verdict != evidence.Complete {
		t.Errorf("left %v, %+v", left, one.outcome.Result)
	}
	judgeUnsent(t, one)
}

func judgeUnsent(t *testing.T, one *trial) {
	t.Helper()
	record := one.model.disk.Files()["/evidence/upgrade-preflight/"+evidence.RejectedFile(identity.SlotMigration)]
	if !strings.Contains(record, `"notSent": true`) {
		t.Errorf("that the create never left is not recorded: %q", record)
	}
}

// A4.1: an answer that has arrived is recorded, though the second signal came with it.
func TestA4_1_AnswerBesideTheSecondSignal(t *testing.T) {
	answer, given := make(chan kube.Created, 1), make(chan struct{})
	close(given)
	for range 100 {
		answer <- kube.Created{Outcome: kube.Acknowledged}
		if created, answered := awaited(answer, given); !answered || created.Outcome != kube.Acknowledged {
			t.Fatalf("an acknowledgement that had arrived is thrown away: %v, %+v", answered, created)
		}
	}
	if _, answered := awaited(answer, given); answered {
		t.Error("what has not arrived is taken for an answer")
	}
}

// A3.7, A2.4: the refusal is a fact and the error's text is for people. A disk that
// takes only one of the two keeps the fact, and what ends the run says the refusal
// beside the failure.
func TestA3_7_RefusalBeforeItsText(t *testing.T) {
	for _, given := range []kube.Outcome{kube.Rejected, kube.Unsent, kube.Unknown} {
		for _, file := range []string{evidence.CreateErrorFile(identity.SlotMigration), evidence.RejectedFile(identity.SlotMigration)} {
			if given == kube.Unknown && strings.HasSuffix(file, "-rejected.json") {
				continue
			}
			t.Run(given.String()+" "+file, func(t *testing.T) {
				one := try(t, exampleProfile(t), func(one *trial) {
					disk := one.model.disk
					one.model.creates[2] = answer{outcome: given}
					hit := false
					disk.Watch(func(op durabletest.Op) {
						if !hit && strings.Contains(op.Path, "."+file+".staging") {
							hit = true
							disk.Inject(durabletest.Fault{At: len(disk.Trace()) + 1, Err: errors.New("no space left on device")})
						}
					})
				})
				judgeTextFault(t, one, given, file)
			})
		}
	}
}

func judgeTextFault(t *testing.T, one *trial, given kube.Outcome, file string) {
	t.Helper()
	var lost *NotDurable
	if !errors.As(one.err, &lost) || slices.ContainsFunc(one.model.writes, func(w write) bool { return w.verb == "delete" }) {
		t.Errorf("ended with %v after %v", one.err, one.model.writes)
	}
	for _, word := range []string{"no space left on device", "for slot migration", "injected"} {
		if !strings.Contains(one.err.Error(), word) {
			t.Errorf("%v\ndoes not say %q", one.err, word)
		}
	}
	rejected := one.model.disk.Files()["/evidence/upgrade-preflight/"+evidence.RejectedFile(identity.SlotMigration)] != ""
	if want := given != kube.Unknown && file == evidence.CreateErrorFile(identity.SlotMigration); rejected != want {
		t.Errorf("the refusal is recorded: %v", rejected)
	}
}
