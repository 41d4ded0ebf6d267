package identity

// The marks that every preflight object carries (A4.3). They are for people, for
// doubt and for other tools: a mark locates an object and may hold a deletion
// back, and it never authorises one. They are named here, below everything
// else, because the part that renders them, the part that compares an answer
// with them and the part that cleans up must mean the same words.
const (
	// NonceAnnotation holds the plan's 128-bit nonce in lower-case hex. An
	// answer to a create that lacks it is not an answer to our request (A3.5).
	NonceAnnotation = "holdfast-project.github.io/preflight-nonce"
	// PlanAnnotation holds the SHA-256 of the plan in lower-case hex. It is
	// set on sending: a plan cannot contain its own digest (A3.3).
	PlanAnnotation = "holdfast-project.github.io/preflight-plan"
	// InstanceLabel holds the release's name.
	InstanceLabel = "app.kubernetes.io/instance"
	// ComponentLabel holds ComponentPreflight, and ComponentInitialization on
	// the migration Job.
	ComponentLabel          = "app.kubernetes.io/component"
	ComponentPreflight      = "upgrade-preflight"
	ComponentInitialization = "initialization"
)

// Component returns the value of ComponentLabel for a slot's object and Pods.
func Component(s Slot) string {
	if s == SlotMigration {
		return ComponentInitialization
	}
	return ComponentPreflight
}
