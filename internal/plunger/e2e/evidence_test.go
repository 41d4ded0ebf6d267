package e2e

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// unmoved fails unless the release's storage is exactly what it was.
func (b *bench) unmoved(t *testing.T, key types.NamespacedName, before []corev1.Secret) {
	t.Helper()
	after, err := b.Revisions(t.Context(), lab.NewRelease(key))
	must(t, err)
	if len(after) != len(before) {
		t.Fatalf("%d revisions, %d before", len(after), len(before))
	}
	for i := range after {
		if after[i].UID != before[i].UID || after[i].ResourceVersion != before[i].ResourceVersion {
			t.Errorf("%s was deleted or rewritten", before[i].Name)
		}
	}
}

// B4.1a, B10.4: the phrase alone costs nothing. helm-controller is stopped at
// the object, so that the message stays as it is put.
func TestAMessageWithoutEvidenceCostsNothing(t *testing.T) {
	b := shared
	for name, status := range map[string]string{"deployed": "deployed", "failed": "failed", "pending": "pending-upgrade", "superseded": "superseded"} {
		for _, strategy := range []decide.Strategy{decide.Repair, decide.Reclaim} {
			t.Run(string(strategy)+" "+name, func(t *testing.T) {
				t.Parallel()
				key := b.Releases(t, "phrase-"+name+"-"+string(strategy), 1)[0]
				stop := b.gate.Hold(helmcontroller.PointRead, key)
				t.Cleanup(stop.Release)
				must(t, b.Harm(t.Context(), key, lab.Damage{Status: status}))
				b.say(t, key, lab.Phrase, 2)
				before, err := b.Revisions(t.Context(), lab.NewRelease(key))
				must(t, err)
				b.start(t, key.Namespace, strategy)
				b.Told(t, key, decide.StorageContradicts)
				b.unmoved(t, key, before)
				if hr := b.Live(t, key); plungertest.Fenced(hr) || hr.Spec.Suspend {
					t.Errorf("fenced %t, suspended %t", plungertest.Fenced(hr), hr.Spec.Suspend)
				}
			})
		}
	}
}

// say puts a Ready message into the status, as a forgotten release shows it.
func (b *bench) say(t *testing.T, key types.NamespacedName, message string, failures int64) {
	t.Helper()
	hr := b.Live(t, key)
	patch := client.MergeFrom(hr.DeepCopy())
	hr.Status.History = nil
	hr.Status.Failures = failures
	hr.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: metav1.ConditionFalse, Reason: "UpgradeFailed",
		Message: `Helm upgrade failed: "x" ` + message, ObservedGeneration: hr.Generation, LastTransitionTime: metav1.Now()}}
	must(t, b.Client.Status().Patch(t.Context(), hr, patch))
}

// B4.1b, B4.6, B Names: a foreign storage namespace, two claimants, a remote
// release with a local decoy: nothing is deleted or rewritten, and it is said.
func TestWhatIsNotOursToTouch(t *testing.T) {
	b := shared
	cases := map[string]struct {
		edit   func(*helmv2.HelmRelease)
		also   func(t *testing.T, key types.NamespacedName)
		reason decide.Reason
		why    string
	}{
		"elsewhere": {reason: decide.StorageRefused, why: "--allow-cross-namespace-storage", edit: func(hr *helmv2.HelmRelease) { hr.Spec.StorageNamespace = hr.Namespace + "-storage" }},
		"claimed": {reason: decide.StorageRefused, why: "/other", also: func(t *testing.T, key types.NamespacedName) {
			other := types.NamespacedName{Namespace: key.Namespace, Name: "other"}
			stop := b.gate.Hold(helmcontroller.PointRead, other)
			t.Cleanup(stop.Release)
			must(t, b.Client.Create(t.Context(), lab.NewRelease(other, func(hr *helmv2.HelmRelease) { hr.Spec.ReleaseName = key.Name })))
		}},
		"remote": {reason: decide.RemoteSkipped, why: "spec.kubeConfig", also: func(t *testing.T, key types.NamespacedName) {
			must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) {
				hr.Spec.KubeConfig = &meta.KubeConfigReference{SecretRef: &meta.SecretKeyReference{Name: "elsewhere"}}
			}))
		}},
	}
	for name, c := range cases {
		for _, strategy := range []decide.Strategy{decide.Repair, decide.Reclaim} {
			t.Run(string(strategy)+" "+name, func(t *testing.T) {
				t.Parallel()
				namespace := "refused-" + name + "-" + string(strategy)
				must(t, b.Namespace(t.Context(), namespace+"-storage"))
				edit := c.edit
				if edit == nil {
					edit = func(*helmv2.HelmRelease) {}
				}
				key := b.Releases(t, namespace, 1, edit)[0]
				stop := b.gate.Hold(helmcontroller.PointRead, key)
				t.Cleanup(stop.Release)
				must(t, b.Harm(t.Context(), key, lab.Damage{}))
				if c.also != nil {
					c.also(t, key)
				}
				b.say(t, key, lab.Phrase, 1)
				hr := b.Live(t, key)
				before, err := b.Revisions(t.Context(), hr)
				must(t, err)
				b.start(t, namespace, strategy)
				if note := b.Told(t, key, c.reason); !strings.Contains(note, c.why) {
					t.Errorf("the event does not say why: %q", note)
				}
				if name == "claimed" {
					if note := b.Told(t, types.NamespacedName{Namespace: namespace, Name: "other"}, c.reason); !strings.Contains(note, key.String()) {
						t.Errorf("the other claimant is not told by whom: %q", note)
					}
				}
				after, err := b.Revisions(t.Context(), hr)
				must(t, err)
				if len(before) != 1 || len(after) != 1 || after[0].ResourceVersion != before[0].ResourceVersion {
					t.Errorf("the storage moved: %d then %d revisions", len(before), len(after))
				}
				if hr := b.Live(t, key); plungertest.Fenced(hr) || hr.Spec.Suspend {
					t.Errorf("fenced %t, suspended %t", plungertest.Fenced(hr), hr.Spec.Suspend)
				}
			})
		}
	}
}

// B4.1a, B10.3: payloads of every kind under repair.
func TestPayloads(t *testing.T) {
	b := shared
	t.Run("B10.3 unknown fields survive", func(t *testing.T) {
		t.Parallel()
		key := b.Releases(t, "payload-unknown", 1)[0]
		b.start(t, key.Namespace, decide.Repair)
		must(t, b.Stick(t.Context(), key, lab.Damage{Unknown: map[string]any{"future": "kept"}}))
		hr := b.Await(t, key, plungertest.Recovered)
		stored, err := b.Revisions(t.Context(), hr)
		must(t, err)
		// Helm itself dropped the field when it superseded the revision; the
		// rewrite is looked at in package write and payload.
		if len(stored) != 2 {
			t.Errorf("%d revisions", len(stored))
		}
	})
	t.Run("B10.1 900 KiB", func(t *testing.T) {
		t.Parallel()
		key := b.Releases(t, "payload-large", 1)[0]
		b.start(t, key.Namespace, decide.Repair)
		must(t, b.Stick(t.Context(), key, lab.Damage{Padding: 900 << 10}))
		b.Await(t, key, plungertest.Recovered)
	})
	t.Run("B10.3 garbage is left alone", func(t *testing.T) {
		t.Parallel()
		key := b.Releases(t, "payload-garbage", 1)[0]
		stop := b.gate.Hold(helmcontroller.PointRead, key)
		t.Cleanup(stop.Release)
		must(t, b.Harm(t.Context(), key, lab.Damage{Garbage: true}))
		b.say(t, key, lab.Phrase, 1)
		before, err := b.Revisions(t.Context(), lab.NewRelease(key))
		must(t, err)
		b.start(t, key.Namespace, decide.Repair)
		b.Told(t, key, decide.StorageRefused)
		b.unmoved(t, key, before)
	})
	t.Run("B8.3 a Secret that must not change is said", func(t *testing.T) {
		t.Parallel()
		key := b.Releases(t, "payload-immutable", 1)[0]
		stop := b.gate.Hold(helmcontroller.PointRead, key)
		t.Cleanup(stop.Release)
		must(t, b.Harm(t.Context(), key, lab.Damage{}))
		b.say(t, key, lab.Phrase, 1)
		before, err := b.Revisions(t.Context(), lab.NewRelease(key))
		must(t, err)
		immutable := before[0].DeepCopy()
		immutable.Immutable = new(bool)
		*immutable.Immutable = true
		must(t, b.Client.Update(t.Context(), immutable))
		b.start(t, key.Namespace, decide.Repair)
		if note := b.Told(t, key, decide.StorageRefused); !strings.Contains(note, "rewrite-status on its storage (422 Invalid)") {
			t.Errorf("the event does not say what is refused: %q", note)
		}
	})
	t.Run("B4.1a the label contradicts the payload", func(t *testing.T) {
		t.Parallel()
		key := b.Releases(t, "payload-label", 1)[0]
		b.start(t, key.Namespace, decide.Repair)
		must(t, b.Stick(t.Context(), key, lab.Damage{Label: "failed"}))
		b.Await(t, key, plungertest.Recovered)
	})
	// Where repair goes by the payload, reclaim never reads one: it says so.
	t.Run("B4.1a the label contradicts the payload, under reclaim", func(t *testing.T) {
		t.Parallel()
		b.contradicted(t, "payload-label-reclaim", decide.Reclaim, lab.Damage{Label: "failed"})
	})
	// And a blocking label over a payload from which Helm upgrades costs nothing
	// under repair.
	for _, status := range []string{"failed", "deployed"} {
		t.Run("B4.1a only the label blocks, the payload is "+status, func(t *testing.T) {
			t.Parallel()
			b.contradicted(t, "payload-only-label-"+status, decide.Repair, lab.Damage{Status: status, Label: "uninstalling"})
		})
	}
}

// contradicted: the message stands, the storage contradicts it, and nothing is
// written but what is said.
func (b *bench) contradicted(t *testing.T, namespace string, strategy decide.Strategy, d lab.Damage) {
	key := b.Releases(t, namespace, 1)[0]
	stop := b.gate.Hold(helmcontroller.PointRead, key)
	t.Cleanup(stop.Release)
	must(t, b.Harm(t.Context(), key, d))
	b.say(t, key, lab.Phrase, 2)
	before, err := b.Revisions(t.Context(), lab.NewRelease(key))
	must(t, err)
	b.start(t, namespace, strategy)
	b.Told(t, key, decide.StorageContradicts)
	b.unmoved(t, key, before)
	b.Await(t, key, func(hr *helmv2.HelmRelease) bool { return !plungertest.Fenced(hr) && !hr.Spec.Suspend })
}

// B5.9, B5.4: a service account that is gone is given way to after three handled
// requests, under either policy.
func TestGivingWay(t *testing.T) {
	b := shared
	for name, policy := range map[string]decide.UnprovenPolicy{"release": decide.ReleaseUnproven, "hold": decide.HoldUnproven} {
		t.Run("B5.9 "+name, func(t *testing.T) {
			t.Parallel()
			key := b.Releases(t, "giving-way-"+name, 1)[0]
			stop := b.gate.Hold(helmcontroller.PointRead, key)
			t.Cleanup(stop.Release)
			must(t, b.Harm(t.Context(), key, lab.Damage{}))
			must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.ServiceAccountName = "pruned" }))
			<-stop.Arrived()
			b.say(t, key, lab.Phrase, 1)
			run := b.start(t, key.Namespace, decide.Reclaim, func(c *plunger.Config) {
				c.Options.UnprovenUninstall = policy
				c.Options.Strategy = decide.Repair
				c.Rest = b.config[decide.Repair]
			})
			_ = run
			b.Await(t, key, plungertest.Fenced)
			must(t, b.Delete(t.Context(), key))
			stop.Release()
			b.Told(t, key, decide.UninstallUnproven)
			if policy == decide.HoldUnproven {
				if hr := b.Live(t, key); !plungertest.Fenced(hr) {
					t.Error("B5.9 hold let go")
				}
				return
			}
			must(t, b.Gone(t.Context(), key, plungertest.Settle))
		})
	}
}

// B5.8: ordinary installs and upgrades cause no write; an adoption is fenced and
// unfenced, no more.
func TestOrdinaryWorkCausesNoWrite(t *testing.T) {
	t.Parallel()
	b := shared
	must(t, b.Namespace(t.Context(), "ordinary"))
	requests := &tap{}
	b.start(t, "ordinary", decide.Repair, requests.wrap)
	keys := b.Releases(t, "ordinary", 5)
	must(t, lab.Each(keys, func(key types.NamespacedName) error {
		if err := b.Change(context.Background(), key, 2); err != nil {
			return err
		}
		_, err := b.Until(context.Background(), key, time.Minute, lab.Ready)
		return err
	}))
	requests.mu.Lock()
	defer requests.mu.Unlock()
	if len(requests.writes) > 0 || len(requests.reads) > 0 {
		t.Errorf("writes %v, reads %v", requests.writes, requests.reads)
	}
}

// B8.5: a dry run decides, and writes nothing but events. Nor does it take for
// done what it did not do: asked again it decides the same, without a delay.
func TestDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fenced bool
		verb   decide.Verb
	}{
		"dry":       {false, decide.SetFence},
		"dryfenced": {true, decide.Rewrite},
	} {
		t.Run(name, func(t *testing.T) {
			b := shared
			key := b.Releases(t, name, 1)[0]
			requests, decided := &tap{}, make(chan struct{}, 100)
			if row.fenced {
				must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Finalizers = append(hr.Finalizers, contract.Fence) }))
			}
			must(t, b.Stick(t.Context(), key, lab.Damage{}))
			b.start(t, key.Namespace, decide.Repair, requests.wrap, func(c *plunger.Config) {
				c.DryRun = true
				c.Log = funcr.New(func(_, line string) {
					if strings.Contains(line, "would write") && strings.Contains(line, string(row.verb)) {
						decided <- struct{}{}
					}
				}, funcr.Options{})
			})
			for look := range 2 {
				select {
				case <-decided:
				case <-time.After(plungertest.Settle):
					t.Fatalf("%s was not decided in look %d", row.verb, look+1)
				}
				must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) {
					hr.Labels = map[string]string{"look": strconv.Itoa(look)}
				}))
			}
			requests.mu.Lock()
			defer requests.mu.Unlock()
			if len(requests.writes) > 0 {
				t.Errorf("wrote %v", requests.writes)
			}
			if said := b.Said(t, key); len(said) > 0 {
				t.Errorf("said %v", said)
			}
		})
	}
}

// B3.4: the order of the first flux-plunger, where the fence goes together with the
// suspension, recovers too.
func TestReclaimDropsTheFenceWithTheSuspension(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "fence-lifted", 1)[0]
	requests := &tap{}
	b.start(t, key.Namespace, decide.Reclaim, requests.wrap, func(c *plunger.Config) { c.Options.FenceUntil = decide.UntilLifted })
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	b.Await(t, key, plungertest.Recovered)
	written, _ := requests.of(key.Name)
	for _, w := range written {
		if w.Step == lift {
			t.Error("lifted in two applies")
		}
	}
}
