package explore

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// What the oracle counts is zero wherever the product is right, so that a blind one
// would pass for a proof. Here it is shown one bad deed of each kind, made by hand,
// and a good one beside it. The names of the kinds are those of Tally.

const wrong, untrue, adopted, lost, stuck = "wrong", "false", "adopted", "lost", "stuck"

// counted is what a tally holds, by name.
func counted(t *Tally) map[string]int {
	all := map[string]int{wrong: t.Wrong, untrue: t.False, adopted: t.Adopted, lost: t.Lost, stuck: t.Stuck}
	for name, n := range all {
		if n == 0 {
			delete(all, name)
		}
	}
	return all
}

// expect holds a tally to one count of a kind, with this sentence, or to none.
func expect(t *testing.T, tally *Tally, kind, says string) {
	t.Helper()
	got := counted(tally)
	if kind == "" {
		if len(got) > 0 || !tally.Clean() {
			t.Errorf("counted %v, want nothing\n%s", got, strings.Join(tally.Notes, "\n"))
		}
		return
	}
	if len(got) != 1 || got[kind] != 1 || tally.Clean() || len(tally.Notes) != 1 || !strings.Contains(tally.Notes[0], says) {
		t.Errorf("counted %v, want one as %s that says %q\n%s", got, kind, says, strings.Join(tally.Notes, "\n"))
	}
}

func slotOf(kind, name, uid string) Slot {
	version := map[string]string{"Secret": "v1", "NetworkPolicy": "networking.k8s.io/v1", "Job": "batch/v1"}[kind]
	return Slot{
		Ref:    identity.SlotRef{Attempt: "first", Slot: identity.Slot(name)},
		Object: identity.Object{APIVersion: version, Kind: kind, Namespace: "n", Name: name, UID: uid},
		Nonce:  "nonce",
	}
}

func aSecret() Slot { return slotOf("Secret", "secret", "aaaaaaaa-0000-4000-8000-000000000001") }
func aPolicy() Slot { return slotOf("NetworkPolicy", "policy", "bbbbbbbb-0000-4000-8000-000000000002") }
func aJob() Slot    { return slotOf("Job", "job", "cccccccc-0000-4000-8000-000000000003") }

// What a disk says of a slot.
func planned(s Slot) fact { return fact{place: s.Object.Place()} }
func proven(s Slot) fact {
	return fact{place: s.Object.Place(), started: true, acknowledged: true, uid: s.Object.UID}
}
func uncertain(s Slot) fact { return fact{place: s.Object.Place(), started: true} }
func stated(s Slot) fact {
	return fact{place: s.Object.Place(), started: true, reconciled: true}
}

func rejected(s Slot) fact {
	return fact{place: s.Object.Place(), started: true, rejected: true}
}

func disk(secret, policy, job fact) facts {
	return facts{aSecret().Ref: secret, aPolicy().Ref: policy, aJob().Ref: job}
}

// allProven holds the three receipts.
func allProven() facts { return disk(proven(aSecret()), proven(aPolicy()), proven(aJob())) }

// made is a world of these.
func made(effects ...effect) *World {
	w := &World{}
	all(effects...)(w)
	return w
}

// elsewhere is a stranger's object at a name of its own.
func elsewhere(kind string, edits ...func(*Object)) effect {
	edits = append(edits, func(o *Object) { o.Ours = false })
	return slotOf(kind, "strangers", "dddddddd-0000-4000-8000-000000000004").with(edits...)
}

// strangersLate is a stranger's object that is on its way.
func strangersLate(kind string) effect {
	return func(w *World) {
		w.Late = append(w.Late, Late{Object: Object{Object: identity.Object{Kind: kind, Namespace: "n", Name: "strangers", UID: "dddddddd-0000-4000-8000-000000000004"}}})
	}
}

func TestOracleJudgesDeletes(t *testing.T) {
	secret, policy, job := aSecret(), aPolicy(), aJob()
	copied := secret.Object
	copied.UID = stranger(secret)
	unborn := secret.Object
	unborn.UID = "eeeeeeee-0000-4000-8000-000000000005"
	renamed := job.Object
	renamed.Name = "another"
	for name, tc := range map[string]struct {
		disk        facts
		start, now  *World
		object      identity.Object
		propagation kube.Propagation
		kind, says  string
	}{
		"a Job, in the foreground":       {allProven(), made(job.with()), nil, job.Object, kube.Foreground, "", ""},
		"a Secret, orphaning":            {allProven(), made(secret.with()), nil, secret.Object, kube.Orphan, "", ""},
		"a NetworkPolicy, orphaning":     {allProven(), made(policy.with()), nil, policy.Object, kube.Orphan, "", ""},
		"no receipt":                     {allProven(), made(), nil, unborn, kube.Orphan, wrong, "no receipt proves it"},
		"no UID":                         {allProven(), made(secret.with()), nil, secret.Object.Place(), kube.Orphan, wrong, "no receipt proves it"},
		"a planned name without receipt": {disk(planned(secret), proven(policy), proven(job)), made(), nil, secret.Object, kube.Orphan, wrong, "no receipt proves it"},
		"an uncertain create's UID":      {disk(uncertain(secret), proven(policy), proven(job)), made(secret.with()), nil, secret.Object, kube.Orphan, adopted, "it was found in the cluster"},
		"the UID of a copy":              {allProven(), made(secret.replaced(true)), nil, copied, kube.Orphan, adopted, "it was found in the cluster"},
		"a receipt's UID, another name":  {allProven(), made(job.with()), nil, renamed, kube.Foreground, adopted, "it was found in the cluster"},

		"a Job in the background":           {allProven(), made(job.with()), nil, job.Object, kube.Background, wrong, `is deleted with "Background"`},
		"a Job orphaning":                   {allProven(), made(job.with()), nil, job.Object, kube.Orphan, wrong, `is deleted with "Orphan"`},
		"a Job with none":                   {allProven(), made(job.with()), nil, job.Object, "", wrong, `is deleted with ""`},
		"a Secret in the foreground":        {allProven(), made(secret.with()), nil, secret.Object, kube.Foreground, wrong, `is deleted with "Foreground"`},
		"a NetworkPolicy in the foreground": {allProven(), made(policy.with()), nil, policy.Object, kube.Foreground, wrong, `is deleted with "Foreground"`},
		"a Secret with none":                {allProven(), made(secret.with()), nil, secret.Object, "", wrong, `is deleted with ""`},

		"a Secret while a Job's create is uncertain":           {disk(proven(secret), proven(policy), uncertain(job)), made(secret.with()), nil, secret.Object, kube.Orphan, wrong, "is deleted while the create of Job n/job is uncertain"},
		"a NetworkPolicy while a Job's create is uncertain":    {disk(proven(secret), proven(policy), uncertain(job)), made(policy.with()), nil, policy.Object, kube.Orphan, wrong, "is deleted while the create of Job n/job is uncertain"},
		"a Job while another create is uncertain":              {disk(uncertain(secret), proven(policy), proven(job)), made(job.with()), nil, job.Object, kube.Foreground, "", ""},
		"a Secret while a stated create is not made":           {disk(proven(secret), proven(policy), stated(job)), made(secret.with()), nil, secret.Object, kube.Orphan, "", ""},
		"a NetworkPolicy while a Secret's create is uncertain": {disk(uncertain(secret), proven(policy), proven(job)), made(policy.with()), nil, policy.Object, kube.Orphan, "", ""},
		"while our Job exists":                                 {allProven(), made(secret.with()), made(secret.with(), job.with()), secret.Object, kube.Orphan, wrong, "is deleted while Job n/job (uid cccccccc-0000-4000-8000-000000000003) exists"},
		"while its Pod exists":                                 {allProven(), made(secret.with()), made(secret.with(), job.pod()), secret.Object, kube.Orphan, wrong, "is deleted while Pod n/job-pod (uid cccccccc-b000-4000-8000-000000000003) exists"},
		"while its Pod is in a webhook":                        {allProven(), made(secret.with(), job.latePod()), nil, secret.Object, kube.Orphan, wrong, "is deleted while Pod n/job-pod (uid cccccccc-b000-4000-8000-000000000003) is to come"},
		"while a stranger's Job has the name":                  {allProven(), made(secret.with(), job.replaced(false)), nil, secret.Object, kube.Orphan, wrong, "is deleted while Job n/job (uid 0badf00d-0000-4000-8000-000000000003) stands at a planned name"},
		"when that Job is gone":                                {allProven(), made(secret.with(), job.replaced(false)), made(secret.with()), secret.Object, kube.Orphan, "", ""},
		"when it came since":                                   {allProven(), made(secret.with()), made(secret.with(), job.replaced(false)), secret.Object, kube.Orphan, "", ""},
		"while a stranger's Job has a name of its own":         {allProven(), made(secret.with(), elsewhere("Job")), nil, secret.Object, kube.Orphan, "", ""},
		"while a stranger's Secret has the other name":         {allProven(), made(policy.with(), secret.replaced(false)), nil, policy.Object, kube.Orphan, "", ""},
		"when a stated create came through since":              {disk(proven(secret), proven(policy), stated(job)), made(secret.with(), job.late(false)), made(secret.with(), job.with(suspended)), secret.Object, kube.Orphan, "", ""},
		"when a stated create had come through":                {disk(proven(secret), proven(policy), stated(job)), made(secret.with()), made(secret.with(), job.with(suspended)), secret.Object, kube.Orphan, wrong, "exists"},
		"when a proven create came through late":               {allProven(), made(secret.with(), job.late(false)), made(secret.with(), job.with()), secret.Object, kube.Orphan, wrong, "exists"},
		"when another create than the stated one came late":    {disk(proven(secret), proven(policy), stated(job)), made(secret.with(), policy.late(false)), made(secret.with(), job.with(suspended)), secret.Object, kube.Orphan, wrong, "exists"},
		"when a Job's create was refused":                      {disk(proven(secret), proven(policy), rejected(job)), made(secret.with()), nil, secret.Object, kube.Orphan, "", ""},
		"while a stranger's Pod is to come":                    {allProven(), made(secret.with(), strangersLate("Pod")), nil, secret.Object, kube.Orphan, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.now == nil {
				tc.now = tc.start
			}
			tally := &Tally{}
			newOracle(tally, tc.disk, tc.start, Weather{}).deletes(tc.now, tc.object, tc.propagation)
			expect(t, tally, tc.kind, tc.says)
		})
	}
}

// end is a result with a verdict that names so many uncertain creates.
func end(v evidence.Verdict, unknown int) evidence.Result {
	return evidence.Result{Verdict: v, Complete: v == evidence.Complete, Unknown: make([]identity.SlotRef, unknown)}
}

func TestOracleJudgesVerdicts(t *testing.T) {
	secret, policy, job := aSecret(), aPolicy(), aJob()
	oneOpen := disk(uncertain(secret), proven(policy), proven(job))
	oneStated := disk(proven(secret), proven(policy), stated(job))
	complete, settled, incomplete := end(evidence.Complete, 0), end(evidence.ReconciledByHand, 1), end(evidence.Incomplete, 0)
	mute := complete
	mute.Complete = false
	boast := incomplete
	boast.Complete = true
	ours := made(secret.with(), policy.with(), job.with(), job.pod())
	for name, tc := range map[string]struct {
		disk       facts
		start, now *World
		result     evidence.Result
		weather    Weather
		kind, says string
	}{
		"all is gone":                                    {allProven(), ours, made(), complete, Weather{}, "", ""},
		"complete, and a Job is left":                    {allProven(), ours, made(job.with()), complete, Weather{}, untrue, "Job n/job (uid cccccccc-0000-4000-8000-000000000003) exists"},
		"complete, and a Secret is left":                 {allProven(), ours, made(secret.with()), complete, Weather{}, untrue, "exists"},
		"complete, and a Pod is left":                    {allProven(), ours, made(job.pod(orphaned)), complete, Weather{}, untrue, "Pod n/job-pod"},
		"complete, and a Pod is to come":                 {allProven(), ours, made(job.latePod()), complete, Weather{}, untrue, "is to come"},
		"complete, and a create is to come":              {allProven(), ours, made(secret.late(true)), complete, Weather{}, untrue, "is to come"},
		"complete, and a stranger's object has the name": {allProven(), made(secret.replaced(false)), made(secret.replaced(false)), complete, Weather{}, untrue, "stands at a planned name"},
		"complete beside a stranger's":                   {allProven(), made(elsewhere("Secret")), made(elsewhere("Secret")), complete, Weather{}, "", ""},
		"complete in foul weather, and a Job is left":    {allProven(), ours, made(job.with()), complete, Weather{What: Gateway, At: 1}, untrue, "exists"},
		"complete that does not say so":                  {allProven(), ours, made(), mute, Weather{What: Gateway, At: 1}, untrue, "complete is false"},
		"incomplete that says complete":                  {allProven(), ours, made(), boast, Weather{}, untrue, "complete is true"},
		"complete, and a create is uncertain":            {oneOpen, ours, made(), end(evidence.Complete, 1), Weather{}, untrue, "a create is uncertain"},
		"complete, and a create is stated":               {oneStated, ours, made(), end(evidence.Complete, 1), Weather{}, untrue, "a create is uncertain"},
		"an uncertain create that is not named":          {oneOpen, ours, made(), incomplete, Weather{}, untrue, "1 creates are uncertain, 0 are named"},
		"an uncertain create that there is not":          {allProven(), ours, made(), end(evidence.Incomplete, 1), Weather{What: Gateway, At: 1}, untrue, "0 creates are uncertain, 1 are named"},
		"incomplete, and a create is uncertain":          {oneOpen, ours, made(secret.with()), end(evidence.Incomplete, 1), Weather{}, "", ""},
		"settled by hand":                                {oneStated, made(secret.with()), made(), settled, Weather{}, "", ""},
		"settled, and nothing was stated":                {oneOpen, ours, made(), settled, Weather{}, untrue, "a create is uncertain"},
		"settled, and only one of two was stated":        {disk(uncertain(secret), proven(policy), stated(job)), made(), made(), end(evidence.ReconciledByHand, 2), Weather{}, untrue, "a create is uncertain"},
		"settled, and a Secret is left":                  {oneStated, ours, made(secret.with()), settled, Weather{}, untrue, "exists"},
		"settled, and a Pod is to come":                  {oneStated, ours, made(job.latePod()), settled, Weather{}, untrue, "is to come"},
		"settled, and its create is to come":             {oneStated, made(), made(job.late(true)), settled, Weather{}, "", ""},
		"settled, and its create came through since":     {oneStated, made(job.late(false)), made(job.with(suspended)), settled, Weather{}, "", ""},
		"settled, and its create had come through":       {oneStated, made(job.with(suspended)), made(job.with(suspended)), settled, Weather{}, untrue, "exists"},
		"settled, and a stranger's Job has the name":     {oneStated, made(job.replaced(true)), made(job.replaced(true)), settled, Weather{}, untrue, "stands at a planned name"},

		"a stranger's object is gone":          {allProven(), made(elsewhere("ConfigMap")), made(), complete, Weather{}, wrong, "the stranger's ConfigMap n/strangers"},
		"a stranger's object is being deleted": {allProven(), made(elsewhere("Secret")), made(elsewhere("Secret", held, ending)), complete, Weather{}, wrong, "the stranger's Secret n/strangers"},
		"a stranger's object was made again":   {allProven(), made(elsewhere("Secret")), made(elsewhere("Secret", func(o *Object) { o.UID = stranger(job) })), complete, Weather{}, wrong, "the stranger's Secret n/strangers"},
		"foul weather may take it":             {allProven(), made(elsewhere("ConfigMap")), made(), complete, Weather{What: StrangerReplaces, At: 1}, "", ""},

		"nothing in the way, and incomplete":       {allProven(), ours, made(), incomplete, Weather{}, stuck, "nothing was in the way"},
		"a late Pod is not in the way":             {allProven(), made(job.latePod()), made(), incomplete, Weather{}, stuck, "nothing was in the way"},
		"foul weather is in the way":               {allProven(), ours, made(), incomplete, Weather{What: Gateway, At: 1}, "", ""},
		"somebody's finalizer is in the way":       {allProven(), made(secret.with(held)), made(secret.with(held)), incomplete, Weather{}, "", ""},
		"an orphaning deletion is in the way":      {allProven(), made(job.with(orphaning)), made(), incomplete, Weather{}, "", ""},
		"a stranger's object is in the way":        {allProven(), made(secret.replaced(false)), made(secret.replaced(false)), incomplete, Weather{}, "", ""},
		"a stranger's elsewhere is not":            {allProven(), made(elsewhere("Secret")), made(elsewhere("Secret")), incomplete, Weather{}, stuck, "nothing was in the way"},
		"an orphaned Pod is in the way":            {allProven(), made(job.pod(orphaned)), made(job.pod(orphaned)), incomplete, Weather{}, "", ""},
		"what no receipt proves is in the way":     {disk(planned(secret), proven(policy), proven(job)), made(secret.with()), made(secret.with()), incomplete, Weather{}, "", ""},
		"a create that is to come is in the way":   {allProven(), made(secret.late(false)), made(), incomplete, Weather{}, "", ""},
		"a create that is uncertain is in the way": {oneOpen, made(), made(), end(evidence.Incomplete, 1), Weather{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tally := &Tally{}
			newOracle(tally, tc.disk, tc.start, tc.weather).finished(tc.now, tc.result)
			expect(t, tally, tc.kind, tc.says)
		})
	}
}

// What a disk must hold, and what it must not, by how far a slot had come.
func TestAlbumJudgesRecords(t *testing.T) {
	job, next := aJob(), aSecret()
	released := proven(job)
	released.released = true
	withPod, withAnother := released, released
	withPod.children, withAnother.children = Pod(job.Object).UID, Pod(next.Object).UID
	another := proven(job)
	another.uid = stranger(job)
	early := uncertain(job)
	early.released = true
	tooEarly := proven(job)
	tooEarly.children = Pod(job.Object).UID
	late := proven(job)
	late.reconciled = true
	for name, tc := range map[string]struct {
		status, after Status
		says          fact
		kind, note    string
	}{
		"nothing was sent":               {Idle, Idle, planned(job), "", ""},
		"a marker before the create":     {Idle, Idle, uncertain(job), "", ""},
		"a marker":                       {Sent, Idle, uncertain(job), "", ""},
		"a statement":                    {Sent, Idle, stated(job), "", ""},
		"a rejection":                    {Refused, Idle, rejected(job), "", ""},
		"a rejection, and more was sent": {Refused, Sent, rejected(job), "", ""},
		"a release before the patch":     {Answered, Idle, released, "", ""},
		"a Pod that was seen":            {Seen, Idle, withPod, "", ""},
		"an answer not yet written":      {Answered, Idle, uncertain(job), "", ""},
		"a receipt":                      {Answered, Sent, proven(job), "", ""},
		"a release":                      {Released, Idle, released, "", ""},
		"a Pod not yet written":          {Seen, Idle, released, "", ""},
		"a Pod":                          {Recorded, Idle, withPod, "", ""},
		"no marker":                      {Sent, Idle, planned(job), lost, "its marker is not there"},
		"no receipt, and more was sent":  {Answered, Sent, uncertain(job), lost, "its receipt is not there"},
		"no receipt of a Job let run":    {Released, Idle, uncertain(job), lost, "its receipt is not there"},
		"no release":                     {Released, Idle, proven(job), lost, "its release is not there"},
		"no Pod":                         {Recorded, Idle, released, lost, "the Pod's receipt is not there"},

		"a receipt of an open create":    {Sent, Idle, proven(job), adopted, "a receipt that no answer gave"},
		"a receipt of another UID":       {Answered, Idle, another, adopted, "a receipt with the UID 0badf00d"},
		"a Pod that was not seen":        {Released, Idle, withPod, adopted, "a Pod that was not seen"},
		"a Pod of a Job not let run":     {Answered, Idle, tooEarly, adopted, "a Pod that was not seen"},
		"another Pod":                    {Recorded, Idle, withAnother, adopted, "a Pod that was not seen"},
		"a rejection of an open create":  {Sent, Idle, rejected(job), lost, "a rejection that no answer gave"},
		"a statement on an answered one": {Answered, Idle, late, lost, "a statement on a create that is settled"},
		"a release of an open create":    {Sent, Idle, early, lost, "a release of what was not made"},
	} {
		t.Run(name, func(t *testing.T) {
			tally := &Tally{}
			album := NewAlbum([]Slot{job, next}, evidence.Expectation{}, tally)
			following := uncertain(next)
			if tc.after == Idle {
				following = planned(next)
			}
			image := &Image{Inventory: &evidence.Inventory{}, facts: facts{job.Ref: tc.says, next.Ref: following}}
			album.judge(image, []Status{tc.status, tc.after})
			expect(t, tally, tc.kind, tc.note)
		})
	}
	t.Run("refused evidence of what may exist", func(t *testing.T) {
		tally := &Tally{}
		album := NewAlbum([]Slot{job, next}, evidence.Expectation{}, tally)
		album.judge(&Image{Refusal: errors.New("damaged")}, []Status{Idle, Idle})
		expect(t, tally, "", "")
		album.judge(&Image{Refusal: errors.New("damaged")}, []Status{Sent, Idle})
		expect(t, tally, lost, "its evidence is refused: damaged")
	})
}

// A loader that says something else of a slot than the disk, in any respect, loses a
// record.
func TestAlbumComparesTheLoader(t *testing.T) {
	job := aJob()
	inventory := &evidence.Inventory{Slots: []evidence.SlotState{{Ref: job.Ref, Object: job.Object.Place(), State: evidence.StateUncertain}}}
	same := uncertain(job)
	changes := map[string]func(*fact){
		"place": func(f *fact) { f.place.Name = "another" }, "started": func(f *fact) { f.started = false },
		"acknowledged": func(f *fact) { f.acknowledged = true }, "rejected": func(f *fact) { f.rejected = true },
		"reconciled": func(f *fact) { f.reconciled = true }, "released": func(f *fact) { f.released = true },
		"uid": func(f *fact) { f.uid = job.Object.UID }, "children": func(f *fact) { f.children = "one" },
	}
	compare := func(image *Image) *Tally {
		tally := &Tally{}
		NewAlbum([]Slot{job}, evidence.Expectation{}, tally).compare(image)
		return tally
	}
	expect(t, compare(&Image{Inventory: inventory, facts: facts{job.Ref: same}}), "", "")
	for what, change := range changes {
		t.Run(what, func(t *testing.T) {
			other := same
			change(&other)
			expect(t, compare(&Image{Inventory: inventory, facts: facts{job.Ref: other}}), lost, "and the loader")
		})
	}
	t.Run("a slot that is not on the disk", func(t *testing.T) {
		expect(t, compare(&Image{Inventory: inventory, facts: facts{}}), lost, "and the loader")
	})
	t.Run("a slot that the loader leaves out", func(t *testing.T) {
		expect(t, compare(&Image{Inventory: &evidence.Inventory{}, facts: facts{job.Ref: same}}), lost, "and the loader")
	})
	t.Run("a disk that cannot be read", func(t *testing.T) {
		expect(t, compare(&Image{Inventory: &evidence.Inventory{}, unread: errors.New("no plan")}), lost, "the loader accepts a disk, and no plan")
	})
	t.Run("a disk that is refused", func(t *testing.T) {
		expect(t, compare(&Image{Refusal: errors.New("damaged")}), "", "")
	})
}

// Of each kind the first five are described, so that none hides another.
func TestTallyDescribesEachKind(t *testing.T) {
	tally := &Tally{}
	for i := range 2 * kept {
		tally.count(&tally.Lost, "lost %d", i)
	}
	tally.count(&tally.False, "false")
	if tally.Lost != 2*kept || len(tally.Notes) != kept+1 || !slices.Contains(tally.Notes, "false") {
		t.Errorf("%d are counted, and %q is said", tally.Lost, tally.Notes)
	}
}
