package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// note is what the API keeps of an event's message, less the sign of a cut.
const note = 1024 - len("…")

// longNames: everything as long as Kubernetes and helm-controller's labels allow, a
// history that is never cut, and many who claim the same release.
func longNames(in *decide.Input) {
	long := func(name string) string { return (name + strings.Repeat("-x", 32))[:63] }
	r := in.Release
	r.Namespace, r.Name, r.Status.StorageNamespace = long("team"), long("app"), long("team")
	for i := range r.Status.History {
		r.Status.History[i].Name, r.Status.History[i].Namespace = r.ReleaseName(), r.Namespace
	}
	if in.Storage != nil && len(in.Storage.Revisions) > 0 {
		for v := range 20 {
			older := in.Storage.Revisions[len(in.Storage.Revisions)-1]
			older.UID, older.Version = fmt.Sprintf("older%d", v), -v
			in.Storage.Revisions = append(in.Storage.Revisions, older)
		}
		for i := range in.Storage.Revisions {
			in.Storage.Revisions[i].Namespace, in.Storage.Revisions[i].Name = r.Namespace, "sh.helm.release.v1."+r.ReleaseName()+".v100"
		}
	}
	if len(in.Claimants) > 0 {
		in.Claimants = nil
		for i := range 20 {
			in.Claimants = append(in.Claimants, r.Namespace+"/"+long(fmt.Sprintf("other%d", i)))
		}
	}
}

// B5.9, B8.3: what a person should do is in the part of a message that the API keeps,
// however long the names and however many Secrets and claimants there are.
func TestWhatToDoSurvivesTheCut(t *testing.T) {
	advice := []string{"helm uninstall ", "flux-plunger release-fence ", "flux resume ", "flux reconcile ", "give each its own release name",
		"--allow-cross-namespace-storage", "--recover-uninstalled", "--strategy=repair", "restore it from a backup"}
	dimensions := [][]edit{
		{forgotten, nameInUse, all(forgotten, deleted, through), all(forgotten, deleted, through, asked(3, now)), all(deleted, longAgo)},
		{nil, reclaim, hold}, {nil, elsewhere, claimed}, {fenced}, {nil, suspendedBy(foreign())},
		{nil, stored(), stored("1:uninstalling"), stored("2:uninstalled"), stored("2:unknown", "1:uninstalled"), all(stored("1:uninstalling"), payload(""), undecodable)},
	}
	said := map[string]bool{}
	var choose func(rest [][]edit, chosen []edit)
	choose = func(rest [][]edit, chosen []edit) {
		if len(rest) > 0 {
			for _, e := range rest[0] {
				choose(rest[1:], append(chosen[:len(chosen):len(chosen)], e))
			}
			return
		}
		for _, event := range decide.Next(base(all(chosen...), longNames)).Events {
			for _, what := range advice {
				at := strings.LastIndex(event.Message, what)
				said[what] = said[what] || at >= 0
				if end := strings.IndexByte(event.Message[max(at, 0):]+";", ';'); at >= 0 && at+end > note {
					t.Errorf("%s: %q is cut off at %d: %s", event.Reason, what, note, event.Message)
				}
			}
		}
	}
	choose(dimensions, nil)
	for _, what := range advice[:2] {
		if !said[what] {
			t.Errorf("nothing said %q: the space is too small", what)
		}
	}
}

func undecodable(in *decide.Input) { in.Storage.Payload.Undecodable = "no gzip" }

// B4.1b, B8.3: who keeps the release of one that is being deleted is not told to
// rename it.
func TestClaimedToo(t *testing.T) {
	r := *base().Release
	live, dying := *base(longNames).Release, *base(deleted).Release
	dying.Name = "before"
	for want, other := range map[string]decide.Release{"give each its own release name": live, "flux-plunger release-fence ns/before": dying} {
		got := decide.ClaimedToo(r, other)
		if got.Reason != decide.StorageRefused || !strings.Contains(got.Message, want) || !strings.Contains(got.Message, "release app in ns is claimed by "+other.Ref()+" too") {
			t.Errorf("%q is not in %s: %s", want, got.Reason, got.Message)
		}
	}
	if got := decide.ClaimedToo(r, dying).Message; strings.Contains(got, "its own release name") {
		t.Errorf("it is told to rename: %s", got)
	}
}

// B8.4: what a fence waits for names the one to look at.
func TestWaitsFor(t *testing.T) {
	for name, c := range map[string]struct {
		in   decide.Input
		want string
	}{
		"live, not remembered":                   {base(fenced, noHistory), "helm-controller, to remember"},
		"live, failed to uninstall once":         {base(fenced, noHistory, released("UninstallFailed")), "helm-controller, to remember"},
		"live, stuck":                            {base(fenced, forgotten), "flux-plunger explain ns/app"},
		"live, held by us":                       {base(forgotten, held(1)), "flux-plunger, to lift"},
		"live, suspended by another":             {base(fenced, forgotten, suspendedBy(foreign())), "whoever suspends it"},
		"live, shared":                           {base(fenced, suspendedBy(ours(), foreign())), "whoever suspends it"},
		"deleted, suspended by another":          {base(fenced, deleted, suspendedBy(foreign())), "somebody else suspends it"},
		"deleted, shared":                        {base(fenced, deleted, suspendedBy(ours(), foreign())), "somebody else suspends it"},
		"deleted, held by us":                    {base(fenced, deleted, suspendedBy(ours())), "flux-plunger, to lift"},
		"deleted, not handled":                   {base(fenced, deleted), "helm-controller, to uninstall it"},
		"deleted, its uninstall fails":           {base(fenced, deleted, released("UninstallFailed")), "conditions Ready and Released"},
		"deleted, handled, and not let go":       {gone(), "a proof that it was uninstalled: flux-plunger explain ns/app"},
		"deleted, handled, failing all the same": {gone(released("UninstallFailed")), "conditions Ready and Released"},
	} {
		if got := c.in.Release.WaitsFor(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// B6.2, B8.3: what a drain could not let go of is told for what it is.
func TestKept(t *testing.T) {
	for name, c := range map[string]struct {
		in          decide.Input
		says, never string
	}{
		"deleted":    {base(fenced, deleted), "flux-plunger release-fence ns/app", "suspension"},
		"live":       {base(fenced), "could not let it go", "suspension"},
		"live, held": {base(held(1)), "flux-plunger's suspension", "uninstall"},
	} {
		got := decide.Kept(*c.in.Release)
		if got.Reason != decide.FenceKept || !strings.Contains(got.Message, c.says) || strings.Contains(got.Message, c.never) {
			t.Errorf("%s: %s: %s", name, got.Reason, got.Message)
		}
	}
}

// B5.6a, B5.9: what is said of an uninstall that nothing proves, word by word: why, and
// what to do in its order.
func TestUnprovenIsSaidInFull(t *testing.T) {
	for want, in := range map[string]decide.Input{
		"its storage is empty and helm-controller reported no uninstall; finish by hand: helm uninstall app --namespace ns":                                          gone(stored()),
		"its storage is empty and helm-controller reported no uninstall; finish by hand: helm uninstall app --namespace ns; then: flux-plunger release-fence ns/app": gone(stored(), hold),
		"its latest revision is uninstalled, and helm-controller did not report that of this delete; finish by hand: helm uninstall app --namespace ns; " +
			"stored still: ns/sh.helm.release.v1.app.v1": gone(keepHistory, stored("1:uninstalled")),
	} {
		got := decide.Next(in)
		if len(got.Events) != 1 || got.Events[0].Message != "nothing proves that it was uninstalled: "+want {
			t.Errorf("said %q, want %q", got.Events, want)
		}
	}
}

// B4.1b: who else claims a release is said in full up to three, and counted beyond; a
// live one is told what to do.
func TestClaimantsAreNamed(t *testing.T) {
	for want, n := range map[string]int{"ns/0": 1, "ns/0, ns/1, ns/2": 3, "ns/0, ns/1, ns/2 and 1 more": 4, "ns/0, ns/1, ns/2 and 2 more": 5} {
		by := func(in *decide.Input) {
			for i := range n {
				in.Claimants = append(in.Claimants, fmt.Sprintf("ns/%d", i))
			}
		}
		want = "release app in ns is claimed by " + want + " too"
		for message, in := range map[string]decide.Input{
			"stuck, but not acted on: " + want + "; give each its own release name": base(forgotten, by),
			"nothing proves that it was uninstalled: helm-controller is not asked to uninstall it: " + want +
				"; stored still: ns/sh.helm.release.v1.app.v1": gone(stored("1:uninstalling"), by),
		} {
			if got := decide.Next(in); len(got.Events) != 1 || got.Events[0].Message != message {
				t.Errorf("said %q, want %q", got.Events, message)
			}
		}
	}
}

// B4.1b: who names another tenant's storage without being allowed to has no say in what
// becomes of that tenant's release; who may, and who is in the same namespace, has. What
// helm-controller runs for somebody is not uninstalled by a reminder, whoever may.
func TestB4_1b_RivalsAreThoseThatCouldBeActedOn(t *testing.T) {
	named := func(name string, edits ...edit) decide.Release {
		r := *base(edits...).Release
		r.Name, r.Spec.ReleaseName = name, "app"
		return r
	}
	foreigner := named("foreigner", func(in *decide.Input) { in.Release.Namespace, in.Release.Spec.StorageNamespace = "evil", "ns" })
	foreigner.Status.History = nil
	runner := foreigner
	runner.Name, runner.Status.History = "runner", base().Release.Status.History
	another := runner
	another.Name, another.Status.History = "another", []decide.Snapshot{{Name: "another", Namespace: "ns", Version: 1}}
	elsewhere := runner
	elsewhere.Name, elsewhere.Status.History = "elsewhere", []decide.Snapshot{{Name: "app", Namespace: "evil", Version: 1}}
	others := []decide.Release{foreigner, runner, another, elsewhere, named("neighbour"), named("dying", deleted)}
	for name, c := range map[string]struct {
		r     decide.Release
		allow bool
		want  string
	}{
		"live":             {*base(fenced).Release, false, "[ns/neighbour ns/dying]"},
		"live, allowed":    {*base(fenced).Release, true, "[evil/foreigner evil/runner evil/another evil/elsewhere ns/neighbour ns/dying]"},
		"deleted":          {*base(fenced, deleted).Release, false, "[evil/runner ns/neighbour]"},
		"deleted, allowed": {*base(fenced, deleted).Release, true, "[evil/foreigner evil/runner evil/another evil/elsewhere ns/neighbour]"},
	} {
		refs := []string{}
		for _, rival := range (decide.Options{AllowCrossNamespaceStorage: c.allow}).Rivals(c.r, others) {
			refs = append(refs, rival.Ref())
		}
		if got := fmt.Sprint(refs); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if foreigner.Claim() != base().Release.Claim() {
		t.Error("the foreigner does not claim the release: this proves nothing")
	}
}

// B4.1b, B4.6: two releases claim the same where storage namespace and effective name
// are the same; one in another cluster claims what nobody else does.
func TestClaim(t *testing.T) {
	other := func(in *decide.Input) { in.Release.Name, in.Release.UID = "other", "uid2" }
	named := func(in *decide.Input) { in.Release.Spec.ReleaseName = "app" }
	app := base().Release.Claim()
	if got := base(other, named).Release.Claim(); got != app {
		t.Errorf("the same release in the same storage: %q and %q", got, app)
	}
	seen := map[string]string{app: "app"}
	for name, in := range map[string]decide.Input{
		"another name": base(other), "another storage": base(elsewhere), "remote": base(remote), "another remote": base(remote, other, named),
	} {
		got := in.Release.Claim()
		if twin := seen[got]; twin != "" {
			t.Errorf("%s claims what %s does: %q", name, twin, got)
		}
		seen[got] = name
	}
}
