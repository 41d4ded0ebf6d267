package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// A6.2, every cell: what the Namespace read gave × what the kube-system read
// gave × whether the evidence records kube-system. "go" means that requests
// follow; anything else is a part of the reason for which nothing is sent.
func TestA6_2_FirstReading(t *testing.T) {
	namespaces := map[string]NamespaceRead{
		"same":   {Found: NamespacePresent, UID: nsUID},
		"other":  {Found: NamespacePresent, UID: other},
		"absent": {Found: NamespaceAbsent},
		"denied": {Found: NamespaceDenied},
		"failed": {Found: NamespaceFailed},
	}
	systems := map[string]NamespaceRead{
		"same":   {Found: NamespacePresent, UID: kubeUID},
		"other":  {Found: NamespacePresent, UID: other},
		"absent": {Found: NamespaceAbsent},
		"denied": {Found: NamespaceDenied},
		"failed": {Found: NamespaceFailed},
	}
	const unread = "the target Namespace could not be read"
	rows := map[string][2]string{ // kube-system recorded, not recorded
		"same/same":     {"go", "go"},
		"same/other":    {"another cluster", "go"},
		"same/absent":   {"kube-system could not be read", "go"},
		"same/denied":   {"go", "go"},
		"same/failed":   {"kube-system could not be read", "go"},
		"other/same":    {"go", "does not record kube-system"},
		"other/other":   {"another cluster", "does not record kube-system"},
		"other/absent":  {"kube-system could not be read", "does not record kube-system"},
		"other/denied":  {"may no longer be read", "does not record kube-system"},
		"other/failed":  {"kube-system could not be read", "does not record kube-system"},
		"absent/same":   {"go", "does not exist"},
		"absent/other":  {"another cluster", "does not exist"},
		"absent/absent": {"kube-system could not be read", "does not exist"},
		"absent/denied": {"does not exist", "does not exist"},
		"absent/failed": {"kube-system could not be read", "does not exist"},
		"denied/same":   {unread, unread}, "denied/other": {unread, unread}, "denied/absent": {unread, unread},
		"denied/denied": {unread, unread}, "denied/failed": {unread, unread},
		"failed/same": {unread, unread}, "failed/other": {unread, unread}, "failed/absent": {unread, unread},
		"failed/denied": {unread, unread}, "failed/failed": {unread, unread},
	}
	if len(rows) != len(namespaces)*len(systems) {
		t.Fatalf("%d rows for %d cells", len(rows), len(namespaces)*len(systems))
	}
	for name, want := range rows {
		ns, ks, _ := strings.Cut(name, "/")
		for i, record := range []identity.Cluster{recorded(), {NamespaceUID: nsUID}} {
			s := state(second, resources(api(), secretRow()), slots(slot("worker", "Job", Uncertain), slot("network-policy", "NetworkPolicy", Uncertain), slot("migration", "Job", Planned)))
			s.Recorded = record
			s.Cluster[0].Namespace, s.Cluster[0].KubeSystem = namespaces[ns], systems[ks]
			step := Decide(s)
			if want[i] == "go" {
				if !slices.Contains(step.Requests, deleteOf("api", Foreground)) {
					t.Errorf("%s, recorded %d: the Job is not deleted: %+v", name, i, step)
				}
				continue
			}
			if step.Conclusion == nil || len(step.Requests) > 0 {
				t.Errorf("%s, recorded %d: something is sent: %+v", name, i, step)
				continue
			}
			c := *step.Conclusion
			text := c.Reasons[0].Text
			if c.Verdict != Incomplete || !strings.Contains(text, want[i]) || strings.Contains(text, "again") || strings.Contains(text, "%!") {
				t.Errorf("%s, recorded %d: %s, %q; want %q", name, i, c.Verdict, text, want[i])
			}
			if found, record, told := strings.Cut(text, " the UID "); told && (!strings.HasPrefix(record, other) || !strings.Contains(record, recordOf(found, s.Recorded))) {
				t.Errorf("%s, recorded %d: %q does not name both UIDs", name, i, text)
			}
			if outcome(t, c, "api") != OutcomeUnreadable || outcome(t, c, "secret") != OutcomeRetained || outcome(t, c, "worker") != OutcomeUnreadable {
				t.Errorf("%s, recorded %d: outcomes %+v", name, i, c.Resources)
			}
			if !slices.Equal(c.Unknown, []identity.SlotRef{ref("worker"), ref("network-policy")}) {
				t.Errorf("%s, recorded %d: unknown %v", name, i, c.Unknown)
			}
			if want := []Cause{ClusterUnproven, JobCreateUncertain, CreateUncertain}; !slices.Equal(causes(c.Reasons), want) {
				t.Errorf("%s, recorded %d: because of %v", name, i, causes(c.Reasons))
			}
		}
	}
}

// recordOf is what the evidence records of the one of the two that a reason is about.
func recordOf(about string, recorded identity.Cluster) string {
	if strings.Contains(about, "kube-system") {
		return "records " + recorded.KubeSystemUID
	}
	return "records " + recorded.NamespaceUID
}

// A6.2: identity is the first thing that is read, and alone.
func TestA6_2_NothingBeforeTheIdentity(t *testing.T) {
	s := State{Recorded: recorded(), Resources: []Resource{api(), secretRow()}, InFlight: map[Request]bool{}}
	if step := Decide(s); !slices.Equal(step.Requests, []Request{{Verb: ReadCluster}}) {
		t.Errorf("got %+v", step)
	}
	s.InFlight[Request{Verb: ReadCluster}] = true
	if step := Decide(s); len(step.Requests) > 0 || step.Conclusion != nil {
		t.Errorf("while it is on its way: %+v", step)
	}
}

// A6.2: an absence that was read between two identities that differ is no
// absence, and costs the verdict.
func TestA6_2_IdentityAfterTheLastAbsenceRead(t *testing.T) {
	gone := api(deleted(second), reads(absent(2*second)))
	quiet := lists(pods(3*second), pods(5*second))
	edits := map[string]func(*ClusterRead){
		"same cluster, other namespace":  func(r *ClusterRead) { r.Namespace.UID = other },
		"namespace vanished":             func(r *ClusterRead) { r.Namespace = NamespaceRead{Found: NamespaceAbsent} },
		"other cluster":                  func(r *ClusterRead) { r.KubeSystem.UID = other },
		"read failed":                    func(r *ClusterRead) { r.Namespace = NamespaceRead{} },
		"kube-system failed":             func(r *ClusterRead) { r.KubeSystem = NamespaceRead{} },
		"kube-system denied, other here": func(r *ClusterRead) { r.KubeSystem = NamespaceRead{Found: NamespaceDenied}; r.Namespace.UID = other },
	}
	for name, change := range edits {
		s := state(6*second, resources(gone), quiet)
		if step := Decide(s); !slices.Equal(step.Requests, []Request{{Verb: ReadCluster}}) {
			t.Fatalf("identity is not read again: %+v", step)
		}
		last := clusterRead(6 * second)
		change(&last)
		s.Cluster = append(s.Cluster, last)
		c := concluded(t, s)
		if c.Verdict != Incomplete || outcome(t, c, "api") != OutcomeUnreadable {
			t.Errorf("%s: %s, %s", name, c.Verdict, outcome(t, c, "api"))
		}
	}
	s := state(6*second, resources(gone), quiet, identified(6*second))
	s.Cluster[1].KubeSystem = NamespaceRead{Found: NamespaceDenied}
	if c := concluded(t, s); c.Verdict != Complete {
		t.Errorf("kube-system denied and the same namespace: %+v", c)
	}
}

// A6.2: each reading counts, not the first and the last alone, and one that was
// sent at the moment of the last answer is after it.
func TestA6_2_EveryReading(t *testing.T) {
	gone := api(deleted(second), reads(absent(2*second)))
	s := state(9*second, resources(gone), lists(pods(3*second), pods(5*second)), identified(5*second+latency))
	if c := concluded(t, s); c.Verdict != Complete {
		t.Errorf("read at the very end: %+v", c)
	}
	for at := 1; at < 4; at++ {
		s := state(9*second, resources(gone), lists(pods(3*second), pods(5*second)), identified(6*second, 7*second, 8*second))
		s.Cluster[at].Namespace.UID = other
		if c := concluded(t, s); c.Verdict != Incomplete || !slices.Equal(causes(c.Reasons), []Cause{ClusterUnproven}) {
			t.Errorf("doubt at reading %d: %s because of %v", at, c.Verdict, causes(c.Reasons))
		}
	}
}

// A6.2, A6.7: each read that the barrier rests on must be followed by a reading of
// the identity: the Jobs', every planned name's, and the list's.
func TestA6_2_IdentityAfterEachRead(t *testing.T) {
	name := func(slot identity.Slot, at int) Slot {
		return Slot{Ref: ref(slot), Object: object("Job", "r-"+string(slot), ""), State: Planned, Reads: []Read{absent(time.Duration(at) * second)}}
	}
	for title, s := range map[string]State{
		"a name":              state(9*second, resources(goneJob(), secretRow()), lists(pods(3*second), pods(5*second)), slots(name("worker", 8))),
		"the first of names":  state(9*second, resources(goneJob(), secretRow()), lists(pods(3*second), pods(5*second)), slots(name("worker", 8), name("migration", 6))),
		"a recorded child":    state(9*second, resources(api(deleted(second), child(absent(8*second)), reads(absent(2*second))), secretRow()), lists(pods(3*second), pods(5*second))),
		"a list without Jobs": state(9*second, resources(secretRow()), lists(pods(8*second))),
	} {
		s.Cluster = append(s.Cluster, clusterRead(7*second))
		if step := Decide(s); !slices.Equal(step.Requests, []Request{{Verb: ReadCluster}}) {
			t.Errorf("%s, read after the identity: %+v", title, step)
		}
		s.Cluster = append(s.Cluster, clusterRead(9*second))
		if step := Decide(s); !slices.Equal(step.Requests, []Request{deleteOf("secret", Orphan)}) {
			t.Errorf("%s, read before the identity: %+v", title, step)
		}
	}
}

// A6.2, A6.7: the reads that open the barrier must be of the recorded cluster,
// or a changed load balancer costs the Secret of a running Job.
func TestA6_2_IdentityBeforeTheBarrier(t *testing.T) {
	s := state(6*second, resources(api(deleted(second), reads(absent(2*second))), secretRow()), lists(pods(3*second), pods(5*second)))
	if step := Decide(s); !slices.Equal(step.Requests, []Request{{Verb: ReadCluster}}) {
		t.Fatalf("want the identity before the Secret's DELETE, got %+v", step)
	}
	wrong := clusterRead(6 * second)
	wrong.KubeSystem.UID = other
	s.Cluster = append(s.Cluster, wrong)
	c := concluded(t, s)
	if outcome(t, c, "secret") != OutcomeRetained || !slices.Equal(causes(c.Retained), []Cause{ClusterUnproven}) {
		t.Errorf("got %+v", c)
	}
}
