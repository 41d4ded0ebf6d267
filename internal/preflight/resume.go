package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/render"
)

// Resume carries out a preflight once more in the directory of an interrupted one
// (A4.7): as an attempt of its own, with a fresh nonce, whose Jobs only identify
// themselves where the profile knows how. accepted is what the loader has just
// returned for dir, whose lock passes to the resume; it is closed in any case.
//
// It refuses before anything is created unless every create of the attempts
// before it is settled and every object of theirs is gone, which it reads itself:
// what an earlier cleanup wrote was true when it was written, and is no
// permission now. It ends as a run does, through one cleanup over all attempts,
// whose barrier is one for all of them (A6.7). ErrReconciled is an end of its own.
func Resume(ctx context.Context, c Config, dir *evidence.Dir, accepted *evidence.Inventory) (Outcome, error) {
	r := &run{Config: c, kind: evidence.Resume, nonce: newNonce(), earlier: accepted, journal: journal.Reopen(dir, accepted)}
	r.outcome.Directory, r.outcome.HelperRetained = r.journal.Path(), accepted.Parameters.HelperRetained
	return r.toItsEnd(ctx, append([]step{
		{"looking at what the earlier attempts left open", r.checkInterrupted},
		{"comparing the inputs with the record", r.compareInputs},
		{"reading the cluster's identity", r.checkCluster},
		{"confirming that nothing of the earlier attempts is left", r.confirmAbsence},
		{"reading the cluster's identity again", r.checkCluster},
	}, r.checks()...))
}

// The words of every refusal that another command must precede.
const (
	cleanUpFirst = "run --cleanup-preflight first, and resume when it has ended with exit 0 or 3"
	startAnew    = "start a new preflight in a directory of its own"
)

// checkInterrupted refuses evidence that there is nothing to resume in, or in
// which a create of an earlier attempt may still be on its way (A4.7, A6.15).
func (r *run) checkInterrupted(context.Context) error {
	_, err := r.journal.Dir().Root().Lstat(evidence.UpgradeLockFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(startAnew, "there is nothing to resume: %s has no %s, so its preflight has passed", r.journal.Path(), evidence.UpgradeLockFile)
	case err != nil:
		return refuseBecause(err, "", "looking for "+evidence.UpgradeLockFile)
	case len(r.earlier.Plans) == 0:
		// The protocol begins with a startup attempt (A5.4), and a directory
		// without one holds nothing that a new one would not.
		return refuse(startAnew, "there is nothing to resume: no attempt was registered, so nothing was created")
	}
	var open []string
	for _, slot := range r.earlier.Slots {
		if slot.State == evidence.StateUncertain && !slot.Reconciled {
			open = append(open, slot.Ref.String())
		}
	}
	if len(open) > 0 {
		return refuse(`the release owner reconciles each by hand and states it with reconcile --slot ATTEMPT/SLOT --statement "…"; --cleanup-preflight shows where to look`,
			"the create of %s is uncertain: it may still reach the cluster", strings.Join(open, ", "))
	}
	return nil
}

// compareInputs refuses other inputs than the recorded ones before the cluster is
// asked anything. Rendering compares again, since a file may change in between; the
// values were read once.
func (r *run) compareInputs(context.Context) error {
	inputs, err := r.inputs()
	if err != nil {
		return err
	}
	sources, err := render.Identify(inputs)
	if err != nil {
		return refuseBecause(err, "", "reading the inputs")
	}
	same, err := r.earlier.Parameters.Values.Matches(r.Values)
	if err != nil {
		return refuseBecause(err, "", "reading the inputs")
	}
	return r.sameInputs(sources, same)
}

// sameAttempt compares what was rendered: the very bytes that the objects are
// made from, and the slots, since a chart may ask what the cluster can do and
// leave an optional one out.
func (r *run) sameAttempt() error {
	if err := r.sameInputs(r.rendered.Sources, true); err != nil {
		return err
	}
	was, is := slotNames(r.earlier.Plans[0].Slots), slotNames(r.plan().Slots)
	if was != is {
		return refuse(startAnew, "the chart now renders the slots %s, and the first attempt planned %s", is, was)
	}
	return nil
}

func slotNames(slots []evidence.PlannedSlot) string {
	names := make([]string, len(slots))
	for i, slot := range slots {
		names[i] = string(slot.Slot)
	}
	return strings.Join(names, ", ")
}

func (r *run) sameInputs(sources render.Sources, sameValues bool) error {
	changed := changes(r.earlier.Parameters, r.parameters(sources))
	if !sameValues {
		changed = append(changed, "the values file is not that of the original run: its digest is not the one in "+evidence.ParametersFile)
	}
	if len(changed) == 0 {
		return nil
	}
	return refuse("resume with the inputs of the original run, or "+startAnew, "%s", strings.Join(changed, "; "))
}

// changes has one clause for each input that is not the recorded one. What the
// loader has compared (A5.3) is not repeated, and a file's name is for people:
// its digest binds it.
func changes(recorded, given evidence.Parameters) (changed []string) {
	for _, input := range []struct{ name, recorded, given string }{
		{"profile", recorded.Profile.SHA256, given.Profile.SHA256},
		{"chart", recorded.Chart.SHA256, given.Chart.SHA256},
	} {
		if input.recorded != input.given {
			changed = append(changed, fmt.Sprintf("the %s is not that of the original run: its SHA-256 is %s, and %s records %s",
				input.name, input.given, evidence.ParametersFile, input.recorded))
		}
	}
	if was, is := references(recorded.Images), references(given.Images); was != is {
		changed = append(changed, fmt.Sprintf("the image is not that of the original run: it is %s, and %s records %s", is, evidence.ParametersFile, was))
	}
	if recorded.TimeoutSeconds != given.TimeoutSeconds {
		changed = append(changed, fmt.Sprintf("the timeout is not that of the original run: it is %ds, and %s records %ds",
			given.TimeoutSeconds, evidence.ParametersFile, recorded.TimeoutSeconds))
	}
	return changed
}

func references(images []evidence.Image) string {
	all := make([]string, len(images))
	for i, image := range images {
		all[i] = image.Role + " " + image.Reference
	}
	return strings.Join(all, ", ")
}

// checkCluster refuses another cluster than the recorded one: in a rebuilt one
// every read answers 404, and absence would be confirmed of objects that live on
// elsewhere (A3.9). It is called on both sides of the absence reads, since a load
// balancer may change clusters between two of them (A6.2). Where cleanup goes on
// in a Namespace that was made anew, because its UID preconditions protect it,
// nothing would protect a create.
func (r *run) checkCluster(ctx context.Context) error {
	reading, err := r.readCluster(ctx)
	if err != nil {
		return err
	}
	recorded, found := r.earlier.Parameters.Cluster, reading.Cluster()
	switch {
	case found.NamespaceUID != recorded.NamespaceUID:
		return refuse(startAnew, "namespace %s has the UID %s and the evidence records %s: it is another one", r.Namespace, found.NamespaceUID, recorded.NamespaceUID)
	case recorded.KubeSystemUID != "" && found.KubeSystemUID != recorded.KubeSystemUID && !reading.KubeSystem.Forbidden():
		return refuse("", "this is another cluster: kube-system has not the UID %s that the evidence records", recorded.KubeSystemUID)
	}
	r.cluster = found
	return nil
}

// confirmAbsence reads every name that an earlier attempt planned, with a receipt
// or without (A6.14), every recorded Pod, and the Pods of the namespace. Only the
// API server's own 404 counts (A6.2a). Whatever else is found, be it a stranger's
// object of that name, is for cleanup to judge.
//
// A Pod of a Job that is gone may still arrive after this one look (A6.3). It can
// use nothing of this resume, since no name is used twice, and the cleanup at the
// end waits for the Pods of every attempt.
func (r *run) confirmAbsence(ctx context.Context) error {
	for _, slot := range r.earlier.Slots {
		if err := r.absent(ctx, slot.Ref, slot.Object); err != nil {
			return err
		}
	}
	for _, resource := range r.earlier.Resources {
		for _, child := range resource.Children() {
			if err := r.absent(ctx, resource.Ref(), child); err != nil {
				return err
			}
		}
	}
	pods, err := r.Cluster.Pods(ctx, r.Namespace)
	if err != nil {
		return r.unanswered(err, "looking for Pods of the earlier attempts")
	}
	concerns := cleanup.Concerns(r.earlier)
	for _, pod := range pods {
		if concerns(pod) {
			return refuse(cleanUpFirst, "%s of an earlier attempt is still there", pod.Object)
		}
	}
	return nil
}

func (r *run) absent(ctx context.Context, ref identity.SlotRef, place identity.Object) error {
	found := r.Cluster.Observe(ctx, place.Place())
	switch found.Presence {
	case kube.Absent:
		return nil
	case kube.Present:
		return refuse(cleanUpFirst, "%s of %s is still there", found.Meta.Object, ref)
	default:
		return r.unanswered(found.Err, fmt.Sprintf("confirming the absence of %s of %s", place, ref))
	}
}
