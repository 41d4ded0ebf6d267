package journal

import (
	"crypto/rand"
	"slices"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// Register makes an attempt's directory, its plan and its registry entry
// durable, in this order (A2.5), and ends the attempt before it. Version,
// Attempt and Kind of the plan are filled in. The first attempt is Startup,
// every later one Resume. A plan that the loader would refuse is ErrMisuse.
func (j *Journal) Register(kind evidence.AttemptKind, plan evidence.Plan) (*Attempt, error) {
	if err := j.usable(); err != nil {
		return nil, err
	}
	name, err := j.nameAttempt(kind)
	if err != nil {
		return nil, err
	}
	plan.Version, plan.Attempt, plan.Kind = evidence.Version, name, kind
	if err := evidence.CheckPlan(plan, j.parameters); err != nil {
		return nil, misuse("the plan of %s %w", name, err)
	}
	data, err := strictjson.Encode(plan)
	if err != nil {
		return nil, err
	}
	a, err := j.register(name, plan, data)
	if err != nil {
		return nil, j.durably(err)
	}
	return a, nil
}

func (j *Journal) nameAttempt(kind evidence.AttemptKind) (string, error) {
	first := len(j.registry.Attempts) == 0
	switch {
	case kind == evidence.Startup && first:
		return evidence.StartupDirectory, nil
	case kind == evidence.Resume && !first:
		return evidence.ResumeDirectory(suffix()), nil
	}
	return "", misuse("a %q attempt cannot follow %d others", kind, len(j.registry.Attempts))
}

// suffix is the random end of a directory's name.
func suffix() string { return rand.Text()[:evidence.SuffixLength] }

func (j *Journal) register(name string, plan evidence.Plan, data []byte) (*Attempt, error) {
	// An attempt that is named in the registry and gone from the disk would be
	// read as lost evidence: the directory's entry comes before its name.
	dir, err := j.root.MakeDir(name)
	if err != nil {
		return nil, err
	}
	a := newAttempt(j, dir, plan, strictjson.Sum(data))
	if previous := j.current; previous != nil {
		// Its records are durable; the descriptor was only a way to them.
		_ = previous.dir.Close()
	}
	j.current, j.loaded = a, false
	if err := j.root.Sync(); err != nil {
		return nil, err
	}
	if err := durable.Publish(dir, evidence.PlanFile, data); err != nil {
		return nil, err
	}
	info, err := dir.Stat()
	if err != nil {
		return nil, err
	}
	j.registry.Attempts = append(slices.Clone(j.registry.Attempts), evidence.Attempt{
		Kind: plan.Kind, Name: name, Directory: directoryOf(dir, info), PlanSHA256: a.planSHA256,
	})
	if err := durable.RemoveStaging(j.root, evidence.JournalFile); err != nil {
		return nil, err
	}
	return a, j.publishRegistry()
}

// Reopen goes on writing the evidence that Load has just accepted: for a
// resume, which registers an attempt of its own. dir's lock passes to the
// journal.
func Reopen(dir *evidence.Dir, accepted *evidence.Inventory) *Journal {
	j := &Journal{
		dir: dir, root: dir.Root(), parameters: accepted.Parameters, registry: accepted.Journal,
		warnings: accepted.Warnings, seen: map[string]bool{},
	}
	for _, slot := range accepted.Slots {
		j.seen[slot.AuditID] = true
	}
	for _, resource := range accepted.Resources {
		j.seen[resource.Object().UID] = true
		for _, child := range resource.Children() {
			j.seen[child.UID] = true
		}
	}
	return j
}
