package decide_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// cluster is what the writes of a walk change, and what its reads see: enough of
// an API server to ask whether a walk comes to an end. Nobody else writes.
type cluster struct {
	in     decide.Input
	stored decide.Storage
	// payload is the status in the latest revision's content.
	payload string
	told    map[string]bool
	verbs   []decide.Verb
	// fails is which of the next writes gets no answer, 0 for none; applied says
	// whether it was carried out all the same.
	fails   int
	applied bool
	// again is the UID of the Secret that replaces the latest one after the next
	// list, empty for none; payloads counts the reads of one.
	again    string
	payloads int
}

// look is one walk, as package walk takes it, from a fresh read; it returns how
// often it wrote, and whether it came to an end, which a write without an answer is.
func (c *cluster) look() (writes int, ended bool) {
	c.in.Storage, c.in.Memory = c.in.Memory.TakeListing(c.in.Release, c.in.Now)
	for range 60 {
		action := decide.Next(c.in)
		action.Events = slices.DeleteFunc(action.Events, func(e decide.Event) bool {
			return c.told[fmt.Sprint(e.Reason, c.in.Release.Generation)]
		})
		c.verbs = append(c.verbs, action.Verb)
		switch {
		case action.Verb.Reads():
			c.read(action.Verb)
			continue
		case action.Verb.Writes():
			writes++
			if writes != c.fails || c.applied {
				c.write(action)
			}
			if writes == c.fails {
				c.in.Memory = c.in.Memory.Unanswered(action)
				return writes, true
			}
		}
		for _, e := range action.Events {
			c.told[fmt.Sprint(e.Reason, c.in.Release.Generation)] = true
		}
		c.in.Memory = c.in.Memory.After(action, c.in.Release, c.in.Options, c.in.Now)
		if !action.Verb.Writes() {
			return writes, true
		}
		c.in.Memory = c.in.Memory.Look(*c.in.Release)
	}
	return writes, false
}

func (c *cluster) read(verb decide.Verb) {
	switch verb {
	case decide.ReadStorage:
		listed := decide.Storage{Revisions: slices.Clone(c.stored.Revisions)}
		c.in.Storage = &listed
		c.in.Memory = c.in.Memory.Listed(*c.in.Release, c.in.Storage, c.in.Now)
		if c.again != "" {
			c.stored.Revisions = slices.Clone(c.stored.Revisions)
			c.stored.Revisions[0].UID, c.again = c.again, ""
		}
	case decide.ReadPayload:
		c.payloads++
		c.in.Storage.Payload = &decide.Payload{UID: c.stored.Revisions[0].UID, Status: c.payload}
		if c.payload == "" {
			c.in.Storage.Payload.Undecodable = "no gzip"
		}
	case decide.Recheck:
		c.in.Storage.Rechecked = true
	}
}

func (c *cluster) write(action decide.Action) {
	r := c.in.Release
	switch action.Verb {
	case decide.SetFence:
		r.Finalizers, c.in.Storage = append(r.Finalizers, contract.Fence), nil
	case decide.Acquire:
		suspendedBy(ours())(&c.in)
		if !r.Fenced() {
			fenced(&c.in)
		}
		r.Generation++
	case decide.Lift, decide.DropFence:
		c.giveUp(action.Verb == decide.DropFence)
	case decide.NoteUID:
		r.Annotations[contract.ProcessedUID] = action.Revision.UID + "@" + strconv.FormatInt(r.Generation, 10)
		r.Annotations[contract.NotedRevision] = action.Note
	case decide.NoteVersion:
		r.Annotations[contract.ProcessedVersion] = strconv.Itoa(action.Revision.Version)
	case decide.Request:
		r.Annotations[contract.RequestedAt], r.Annotations[contract.RequestedUID] = "t", action.Revision.UID
	case decide.FillStatus:
		remembers(action.Revision.Version)(&c.in)
		r.Status.StorageNamespace = "ns"
	case decide.MarkUnproven:
		r.Annotations[contract.Unproven] = strconv.Itoa(action.Unproven)
	case decide.Remind:
		asked(r.ReminderCount()+1, c.in.Now)(&c.in)
		if action.Unproven > 0 {
			r.Annotations[contract.Unproven] = strconv.Itoa(action.Unproven)
		}
	case decide.DeleteRevision:
		c.stored = c.stored.Without(action.Revision.UID)
		next := c.in.Storage.Without(action.Revision.UID)
		c.in.Storage = &next
	case decide.Rewrite:
		c.stored, c.payload = c.stored.Repaired(action.Revision.UID), decide.StatusFailed
		next := c.in.Storage.Repaired(action.Revision.UID)
		c.in.Storage = &next
	}
}

// giveUp is an apply that says less: a suspension of ours goes, which makes a
// generation where nobody else wants it.
func (c *cluster) giveUp(fence bool) {
	r := c.in.Release
	if fence {
		r.Finalizers = remove(r.Finalizers, contract.Fence)
	}
	before := r.Suspension()
	r.Managers = slices.DeleteFunc(r.Managers, func(m decide.ManagedField) bool { return m.Manager == contract.FieldManager })
	if before == decide.Ours {
		r.Spec.Suspend = nil
		r.Generation++
	}
}

// B1.1, B4.2, B8.2: while nobody else writes, every look comes to an end, and the
// next one, of the same moment or of an hour later, writes nothing: at rest the
// writes stand still. Whatever alternates is a hot loop.
func TestEveryLookComesToRest(t *testing.T) {
	dimensions := [][]edit{
		{nil, forgotten, upgrading, nameInUse, covered, all(deleted, through)}, {nil, remembers(1), noHistory},
		{nil, recoverUninstalled, all(reclaim, untilLifted)}, {nil, claimed},
		{nil, suspendedBy(foreign()), suspendedBy(ours())}, {nil, failures(2)}, {nil, fenced}, {nil, contradicted},
	}
	cases := 0
	var choose func(rest [][]edit, chosen []edit)
	choose = func(rest [][]edit, chosen []edit) {
		if len(rest) == 0 {
			cases += restsWhateverIsStored(t, all(chosen...))
			return
		}
		for _, e := range rest[0] {
			choose(rest[1:], append(chosen[:len(chosen):len(chosen)], e))
		}
	}
	choose(dimensions, nil)
	if want := 6 * 3 * 2 * 3 * 2 * 2 * 2 * (2*(1+5*4) + 6); cases != want {
		t.Errorf("%d cases, want %d: the space has changed", cases, want)
	}
}

// all is several edits as one; nil ones change nothing.
func all(edits ...edit) edit {
	return func(in *decide.Input) {
		for _, e := range edits {
			if e != nil {
				e(in)
			}
		}
	}
}

func restsWhateverIsStored(t *testing.T, e edit) (cases int) {
	for _, revisions := range [][]string{nil, {"1:failed"}, {"1:uninstalling"}, {"2:uninstalled"}, {"2:unknown", "1:deployed"}, {"2:uninstalling", "1:uninstalled"}} {
		payloads := []string{"", "failed", "uninstalling", "uninstalled"}
		if revisions == nil || base(e).Options.Strategy == decide.Reclaim {
			payloads = payloads[:1] // nobody reads it
		}
		for _, payload := range payloads {
			cases++
			in := base(e)
			c := &cluster{in: in, stored: *base(stored(revisions...)).Storage, payload: payload, told: map[string]bool{}}
			if why := c.rests(); why != "" {
				t.Fatalf("%s: stored %v, payload %q, %+v, %+v: %v", why, revisions, payload, *base(e).Release, in.Options, c.verbs)
			}
		}
	}
	return cases
}

// rests returns what is wrong, empty for nothing.
func (c *cluster) rests() string {
	if _, ended := c.look(); !ended {
		return "the walk does not end"
	}
	for _, later := range []time.Duration{0, time.Hour} {
		c.in.Now = c.in.Now.Add(later)
		if writes, ended := c.look(); writes > 0 || !ended {
			return fmt.Sprintf("at rest it wrote %d times", writes)
		}
	}
	return ""
}

// B4.4, B4.5, B10.1: a repair of which one write got no answer, carried out or not, is
// taken up by the next look as one without a fault: the same writes in the end, the
// fence kept, and nobody told that it stuck again or that the storage contradicts it.
func TestARepairIsTakenUpAgain(t *testing.T) {
	for _, before := range []bool{false, true} {
		for _, failed := range []int64{1, 2} {
			for fails := 1; fails <= 3; fails++ {
				for _, applied := range []bool{false, true} {
					takenUpAgain(t, before, failed, fails, applied)
				}
			}
		}
	}
}

// takenUpAgain: the fence was set before the error, or after it.
func takenUpAgain(t *testing.T, before bool, failed int64, fails int, applied bool) {
	t.Helper()
	c := &cluster{in: base(forgotten, failures(failed)), stored: *base(stored("1:uninstalling")).Storage, payload: "uninstalling", told: map[string]bool{}}
	if before {
		upgrading(&c.in)
		c.look()
		all(forgotten, failures(failed))(&c.in)
	}
	c.fails, c.applied = fails, applied
	c.look()
	c.fails, c.in.Now = 0, c.in.Now.Add(50*time.Millisecond)
	c.look()
	asked := c.in.Release.Annotations[contract.RequestedUID]
	if !c.in.Release.Fenced() || c.stored.Revisions[0].Status != decide.StatusFailed || asked != "u1" || len(c.told) > 0 {
		t.Errorf("fenced before the error: %t, attempt %d, write %d without an answer, carried out: %t: fenced %t, stored %v, asked for %q, told %v: %v", before, failed,
			fails, applied, c.in.Release.Fenced(), c.stored.Revisions[0].Status, asked, c.told, c.verbs)
	}
}

// B1.2, B10.1: a Secret that is made again under its name between the list and the
// reading is listed again, and its payload, often a megabyte, read twice at most.
func TestASecretMadeAgain(t *testing.T) {
	for name, begins := range map[string]edit{"the label blocks": stored("1:uninstalling"), "the label does not": stored("1:failed")} {
		in := base(forgotten, failures(2), fenced, begins)
		c := &cluster{in: in, stored: *in.Storage, payload: "uninstalling", told: map[string]bool{}}
		c.again = "u9"
		if _, ended := c.look(); !ended || c.payloads > 2 || c.stored.Revisions[0].UID != "u9" || c.stored.Revisions[0].Status != decide.StatusFailed {
			t.Errorf("%s: ended %t, %d payloads read, stored %v: %v", name, ended, c.payloads, c.stored.Revisions, c.verbs)
		}
	}
}

// B4.4, B9.5: a suspension of ours on a live release never rests: whatever else is
// true of it, the next step takes the recovery on or gives the suspension up.
func TestOurSuspensionNeverRests(t *testing.T) {
	dimensions := [][]edit{
		{nil, forgotten, upgrading}, {nil, noHistory}, {nil, reclaim, all(reclaim, untilLifted)}, {nil, elsewhere, claimed, disagrees}, {nil, remote},
		{suspendedBy(ours()), held(1), suspendedBy(ours(), foreign())}, {nil, fenced}, {nil, draining},
		{nil, stored(), stored("1:uninstalling"), stored("2:unknown", "1:deployed")},
	}
	var choose func(rest [][]edit, chosen []edit)
	choose = func(rest [][]edit, chosen []edit) {
		if len(rest) > 0 {
			for _, e := range rest[0] {
				choose(rest[1:], append(chosen[:len(chosen):len(chosen)], e))
			}
			return
		}
		in := base(all(chosen...))
		if got := decide.Next(in); !got.Verb.Reads() && !got.Verb.Writes() {
			t.Errorf("%s (%s): %+v, %+v", got.Verb, got.Why, *in.Release, in.Options)
		}
	}
	choose(dimensions, nil)
}
