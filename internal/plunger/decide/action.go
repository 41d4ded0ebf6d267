package decide

import "time"

// Verb is the one thing to do next.
type Verb string

// The verbs. Those that read fill the input and the question is asked again;
// of those that write exactly one is executed, and its answer is the next
// input.
const (
	// None: nothing to do until the object changes.
	None Verb = "none"
	// Wait: nothing to do now; look again after Action.After at the latest.
	Wait Verb = "wait"

	// ReadStorage lists the storage Secrets, as metadata.
	ReadStorage Verb = "read-storage"
	// ReadPayload reads the content of the latest revision (repair only).
	ReadPayload Verb = "read-payload"
	// Recheck reads the latest revision's metadata again, by name (B4.3).
	Recheck Verb = "recheck-revision"

	// SetFence applies the fence alone, on the UID only (B5.8).
	SetFence Verb = "set-fence"
	// Acquire applies suspension and fence in one (B3.1).
	Acquire Verb = "acquire"
	// NoteUID writes the UID with the hold's generation, and the revision's number,
	// before the delete (B4.2).
	NoteUID Verb = "note-uid"
	// DeleteRevision deletes the latest revision's Secret.
	DeleteRevision Verb = "delete-revision"
	// NoteVersion writes the deleted revision's number, after the delete.
	NoteVersion Verb = "note-version"
	// Rewrite sets the latest revision's status to failed, in its payload and
	// its label (B10.1).
	Rewrite Verb = "rewrite-status"
	// Request asks helm-controller for a reconcile, once per repaired UID.
	Request Verb = "request-reconcile"
	// Lift gives up our suspension and keeps the fence.
	Lift Verb = "lift"
	// DropFence gives up everything that we apply: the fence, and with it a
	// suspension that is still ours.
	DropFence Verb = "drop-fence"
	// FillStatus writes what is empty of history and storageNamespace (B5.7).
	FillStatus Verb = "fill-status"
	// MarkUnproven writes the number of the revision that we deleted and that
	// nothing has replaced, under our suspension, before the lift (B5.6).
	MarkUnproven Verb = "mark-unproven"
	// Remind asks helm-controller to reconcile a terminating release and counts
	// the attempt (B5.7).
	Remind Verb = "remind"
)

// Reads reports whether the verb asks for more input.
func (v Verb) Reads() bool { return v == ReadStorage || v == ReadPayload || v == Recheck }

// Writes reports whether the verb changes something in the cluster.
func (v Verb) Writes() bool { return v != None && v != Wait && !v.Reads() }

// OnStorage reports whether the verb is about the storage Secrets.
func (v Verb) OnStorage() bool { return v.Reads() || v == DeleteRevision || v == Rewrite }

// Action is the decision: one verb, why, and what to tell.
type Action struct {
	Verb Verb
	// Why is one short clause for logs and for explain, with the requirement.
	Why string
	// Revision is the storage Secret that a verb is about.
	Revision Revision
	// After bounds how long a Wait lasts.
	After time.Duration
	// Unproven is the number to record with Remind or MarkUnproven; zero for
	// none.
	Unproven int
	// Note is what to write beside the UID with NoteUID.
	Note string
	// Contradicted is true where the storage contradicts the message, which is
	// remembered for the generation (B5.8).
	Contradicted bool
	// Claimed is true where the release is refused and others claim it too: each of
	// them is told (B4.1b).
	Claimed bool
	// Events are told once the verb has succeeded.
	Events []Event
}

// Event is one thing to tell about a release.
type Event struct {
	Reason Reason
	// Message says what a person should do, if anything. It holds no value of a
	// Secret.
	Message string
}

func none(why string) Action { return Action{Verb: None, Why: why} }

func wait(after time.Duration, why string) Action {
	return Action{Verb: Wait, Why: why, After: after}
}

func do(verb Verb, why string) Action { return Action{Verb: verb, Why: why} }

func (a Action) about(r Revision) Action { a.Revision = r; return a }

func (a Action) telling(reason Reason, message string) Action {
	a.Events = append(a.Events, Event{Reason: reason, Message: message})
	return a
}
