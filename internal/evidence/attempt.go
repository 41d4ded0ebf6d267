package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// BuiltInProfile is the name of the profile whose slots this package knows. For
// any other, the plan itself says what the profile named.
const BuiltInProfile = "openclaw-enterprise"

// builtIn reports whether the run took the profile that its helper embeds, and not one
// of its name.
func (p *Parameters) builtIn() bool {
	return slices.Contains(slices.Collect(maps.Values(p.Helper.Assets)), p.Profile.SHA256)
}

// attempt is one registered attempt, read.
type attempt struct {
	entry Attempt
	dir   durable.Dir
	plan  Plan
	// slots are in the plan's order.
	slots []*slot
}

func (a *attempt) file(name string) string { return path.Join(a.entry.Name, name) }

// slot finds a planned slot by its name.
func (a *attempt) slot(name identity.Slot) *slot {
	for _, s := range a.slots {
		if s.planned.Slot == name {
			return s
		}
	}
	return nil
}

// A5.4: every registered directory exists and is the recorded one. A run begins
// with its startup attempt, and has one of them.
func (l *loading) attemptsAreTheRegistered() error {
	seen := map[string]bool{}
	for i, entry := range l.journal.Attempts {
		switch {
		case !attemptNameFits(entry.Kind, entry.Name):
			return refuse(JournalFile, "registers %q as an attempt of kind %q, which is not one", entry.Name, entry.Kind)
		case (i == 0) != (entry.Kind == Startup):
			return refuse(JournalFile, "registers %q out of order: the startup attempt, and no other, comes first", entry.Name)
		case seen[entry.Name]:
			return refuse(JournalFile, "registers %q twice", entry.Name)
		}
		seen[entry.Name] = true
		if err := l.openAttempt(entry); err != nil {
			return err
		}
	}
	return nil
}

func (l *loading) openAttempt(entry Attempt) error {
	dir, err := l.root.OpenDir(entry.Name)
	if err != nil {
		return refuseFile(entry.Name, err)
	}
	l.attempts = append(l.attempts, &attempt{entry: entry, dir: dir})
	info, err := durable.CheckPrivateDirectory(dir)
	if err != nil {
		return refuseFile(entry.Name, err)
	}
	return sameDirectory(entry.Name, entry.Directory, dir.Path(), info)
}

// A5.4: every plan is the registered one, complete, and known to this version.
func (l *loading) plansAreComplete() error {
	for _, a := range l.attempts {
		sum, err := l.read(a.dir, PlanFile, maxPlanBytes, &a.plan)
		if err != nil {
			return err
		}
		if sum != a.entry.PlanSHA256 {
			return refuse(a.file(PlanFile), "has not the SHA-256 that %s records: it was changed", JournalFile)
		}
		if a.plan.Attempt != a.entry.Name || a.plan.Kind != a.entry.Kind {
			return refuse(a.file(PlanFile), "is the plan of another attempt (%s, %s)", a.plan.Attempt, a.plan.Kind)
		}
		if err := CheckPlan(a.plan, l.parameters); err != nil {
			return refuseBecause(a.file(PlanFile), err)
		}
		for _, planned := range a.plan.Slots {
			a.slots = append(a.slots, &slot{attempt: a, planned: planned})
		}
	}
	return nil
}

// CheckPlan reports why a plan is not complete, is not of this run, or is not
// known to this version (A5.4). The journal asks before it registers, and the
// loader before it believes.
func CheckPlan(plan Plan, of Parameters) error {
	switch {
	case plan.Version != Version:
		return fmt.Errorf("has version %d, not %d", plan.Version, Version)
	case plan.Namespace != of.Namespace || plan.Release != of.Release:
		return fmt.Errorf("is for release %q in namespace %q, not those of %s", plan.Release, plan.Namespace, ParametersFile)
	case len(plan.Nonce) != 32 || !isLowerHex(plan.Nonce):
		return errors.New("has no nonce of 128 bits")
	}
	slots, places := map[identity.Slot]bool{}, map[identity.Object]bool{}
	for _, planned := range plan.Slots {
		switch {
		case slots[planned.Slot]:
			return fmt.Errorf("plans slot %q twice", planned.Slot)
		case places[planned.Object()]:
			return fmt.Errorf("plans %s twice", planned.Object())
		}
		slots[planned.Slot], places[planned.Object()] = true, true
		if err := checkPlannedSlot(plan, planned); err != nil {
			return err
		}
	}
	return checkSlotSet(plan, of.Profile.Name)
}

// objectName is what the API server accepts as a name of these kinds. It is
// also what makes a name safe in a printed command.
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

func checkPlannedSlot(plan Plan, s PlannedSlot) error {
	known := apiVersionOf(s.Kind)
	switch {
	case !identity.ValidSlot(s.Slot):
		return fmt.Errorf("plans a slot with the invalid name %q", s.Slot)
	case s.Namespace != plan.Namespace:
		return fmt.Errorf("plans %s in namespace %q", s.Slot, s.Namespace)
	case !objectName.MatchString(s.Name):
		return fmt.Errorf("plans %s under the invalid name %q", s.Slot, s.Name)
	case known == "" || known != s.APIVersion:
		return fmt.Errorf("plans %s as a %s of %q, which this version does not know", s.Slot, s.Kind, s.APIVersion)
	case s.Kind == "Secret":
		return checkPlannedSecret(s)
	case s.SecretShape != "":
		return fmt.Errorf("has the shape of a Secret for %s, a %s", s.Slot, s.Kind)
	}
	return checkManifest(s)
}

// apiVersionOf is the one version in which each kind is planned, empty for a kind
// that never is.
func apiVersionOf(kind string) string {
	switch kind {
	case "Job":
		return "batch/v1"
	case "Secret":
		return "v1"
	case "NetworkPolicy":
		return "networking.k8s.io/v1"
	}
	return ""
}

// checkPlannedSecret sees to it that no Secret's content lies in the evidence
// (A3.3).
func checkPlannedSecret(s PlannedSlot) error {
	if len(s.Manifest) != 0 {
		return fmt.Errorf("holds a manifest for the Secret %s, where only its shape belongs", s.Slot)
	}
	if !validSum(s.SecretShape) {
		return fmt.Errorf("has no shape of the Secret %s", s.Slot)
	}
	return nil
}

// checkManifest refuses a manifest that names another object than its slot.
func checkManifest(s PlannedSlot) error {
	if len(s.Manifest) == 0 {
		return fmt.Errorf("has no manifest for %s", s.Slot)
	}
	if err := strictjson.Canonical(s.Manifest); err != nil {
		return fmt.Errorf("has a manifest for %s that %w", s.Slot, err)
	}
	var named struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(bytes.NewReader(s.Manifest)).Decode(&named); err != nil {
		return fmt.Errorf("has a manifest for %s that is not an object: %w", s.Slot, err)
	}
	found := identity.Object{
		APIVersion: named.APIVersion, Kind: named.Kind,
		Namespace: named.Metadata.Namespace, Name: named.Metadata.Name,
	}
	if found != s.Object() {
		return fmt.Errorf("has a manifest for %s that names %s, not %s", s.Slot, found, s.Object())
	}
	return nil
}

// checkSlotSet compares the plan's slots, in the order in which they are
// created, with what its kind and profile must hold.
func checkSlotSet(plan Plan, profile string) error {
	switch {
	case plan.Kind == MigrationResume:
		return checkSlots(plan.Slots, []identity.Slot{identity.SlotMigration})
	case profile == BuiltInProfile:
		want := []identity.Slot{
			identity.SlotSecret, identity.SlotNetworkPolicy,
			identity.SlotMigration, identity.SlotAPI, identity.SlotWorker,
		}
		if len(plan.Slots) < len(want) {
			want = slices.Delete(want, 1, 2) // the NetworkPolicy is optional
		}
		return checkSlots(plan.Slots, want)
	}
	if !slices.ContainsFunc(plan.Slots, func(s PlannedSlot) bool { return s.Object().Consumer() }) {
		return errors.New("is not complete: it holds no Job")
	}
	return nil
}

// checkSlots compares the planned slots with exactly those wanted.
func checkSlots(planned []PlannedSlot, want []identity.Slot) error {
	if len(planned) != len(want) {
		return fmt.Errorf("is not complete: it holds %d slots, not %s", len(planned), list(want))
	}
	for i, s := range planned {
		if s.Slot != want[i] || s.Kind != kindOfSlot(want[i]) {
			return fmt.Errorf("is not complete: it holds the %s %s where the %s %s belongs", s.Kind, s.Slot, kindOfSlot(want[i]), want[i])
		}
	}
	return nil
}

func list(slots []identity.Slot) string {
	names := make([]string, len(slots))
	for i, s := range slots {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// kindOfSlot is the kind of each slot of the built-in profile.
func kindOfSlot(s identity.Slot) string {
	switch s {
	case identity.SlotSecret:
		return "Secret"
	case identity.SlotNetworkPolicy:
		return "NetworkPolicy"
	}
	return "Job"
}
