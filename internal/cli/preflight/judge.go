package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	run "github.com/holdfast-project/holdfast/internal/preflight"
	"github.com/holdfast-project/holdfast/internal/render"
	"github.com/holdfast-project/holdfast/internal/ui"
)

// refuse ends a command with exit 2: its inputs, its lock or its evidence are not
// accepted, and nothing was sent or made.
func refuse(hint, format string, args ...any) error {
	return &run.Refusal{Sentence: fmt.Sprintf(format, args...), Hint: hint}
}

// mode is what the flags ask for.
type mode int

const (
	modePreflight mode = iota + 1
	modeCleanup
	modeResume
)

// targetFlags are those that every mode needs, in the order of the operator's page.
func targetFlags() []string {
	return []string{flagKubeconfig, flagContext, flagNamespace, flagRelease, flagEvidenceDir}
}

// judge decides on all flags of the root command together, before anything is
// opened (A1.2, A4.2, A5.1). given lists the flags that the command line holds.
func judge(o options, given []string) (mode, error) {
	switch {
	case o.cleanup:
		return modeCleanup, judgeCleanup(o, given)
	case o.resume:
		return modeResume, judgeResume(o, given)
	case slices.Contains(given, flagSettled), slices.Contains(given, flagUnrestored):
		return 0, refuse("add the mode, or leave the attestations out",
			"--%s and --%s belong to --%s and --%s alone", flagSettled, flagUnrestored, flagCleanup, flagResume)
	case !o.preflightOnly:
		return 0, refuse("see --help",
			"the upgrade itself is not part of this version: give --%s to preflight the candidate image, or --%s to clean up an interrupted preflight", flagPreflightOnly, flagCleanup)
	default:
		return modePreflight, judgePreflight(o)
	}
}

// judgeCleanup accepts exactly the arguments of A5.1.
func judgeCleanup(o options, given []string) error {
	accepted := append(targetFlags(), flagCleanup, flagSettled, flagUnrestored)
	for _, name := range given {
		if !slices.Contains(accepted, name) {
			return refuse("remove it; what the original run was given is in parameters.json",
				"--%s accepts only its target, its evidence and the two attestations, not --%s", flagCleanup, name)
		}
	}
	if err := needTarget(o, flagCleanup, "give the values of the original run; parameters.json has them"); err != nil {
		return err
	}
	return needAttestations(o)
}

// judgeResume accepts a preflight's arguments but those that the original run
// decided for good, and wants the attestations of A5.1 too: a resume rests on the
// same evidence as a cleanup, creates beside what that evidence may not hold, and
// ends by deleting on its strength. A request of a process that still runs, or a
// create that a backup omits, is as invisible to it.
func judgeResume(o options, given []string) error {
	if !o.preflightOnly {
		return refuse("add --"+flagPreflightOnly, "--%s needs --%s: resuming the upgrade itself is not part of this version", flagResume, flagPreflightOnly)
	}
	for _, name := range []string{flagAllowFilesystem, flagRetainHelper} {
		if slices.Contains(given, name) {
			return refuse("remove it", "--%s follows what the original run recorded, and does not accept --%s", flagResume, name)
		}
	}
	if err := judgePreflight(o); err != nil {
		return err
	}
	return needAttestations(o)
}

func needAttestations(o options) error {
	var missing []string
	if !o.settled {
		missing = append(missing, "--"+flagSettled+" is required, because a stopped local process does not establish that a request it had sent has finished")
	}
	if !o.unrestored {
		missing = append(missing, "--"+flagUnrestored+" is required, because a restored backup can omit a create that had already started")
	}
	if len(missing) > 0 {
		return refuse("the flags neither stop a process nor detect a backup: they are your word, so check first and then add them",
			"%s", strings.Join(missing, "; and "))
	}
	return nil
}

func needTarget(o options, modeFlag, hint string) error {
	values := map[string]string{
		flagKubeconfig: o.kubeconfig, flagContext: o.context, flagNamespace: o.namespace,
		flagRelease: o.release, flagEvidenceDir: o.evidenceDir,
	}
	var missing []string
	for _, name := range targetFlags() {
		if values[name] == "" {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) > 0 {
		return refuse(hint, "--%s needs %s", modeFlag, strings.Join(missing, ", "))
	}
	return nil
}

// maxTimeout is a day: a longer wait is a typing error.
const maxTimeout = 24 * time.Hour

func judgePreflight(o options) error {
	if err := needTarget(o, flagPreflightOnly, "see --help"); err != nil {
		return err
	}
	for _, need := range []struct{ name, value string }{{flagChart, o.chart}, {flagValues, o.values}, {flagImage, o.image}} {
		if need.value == "" {
			return refuse("see --help", "--%s needs --%s", flagPreflightOnly, need.name)
		}
	}
	if _, err := render.ParseImage(o.image); err != nil {
		return &run.Refusal{Sentence: "--" + flagImage + ": " + err.Error(), Hint: "a tag can be moved while the preflight runs; a digest cannot", Err: err}
	}
	return judgeForms(o)
}

// judgeForms refuses a value that cannot be what its flag names.
func judgeForms(o options) error {
	switch {
	case !render.ValidReleaseName(o.release):
		return refuse("", "--%s %q is not the name of a Helm release", flagRelease, o.release)
	case len(validation.IsDNS1123Label(o.namespace)) > 0:
		return refuse("", "--%s %q is not the name of a namespace", flagNamespace, o.namespace)
	case o.timeout < time.Second || o.timeout > maxTimeout || o.timeout%time.Second != 0:
		return refuse("", "--%s %s is not a whole number of seconds between 1s and %s", flagTimeout, o.timeout, maxTimeout)
	case ui.Format(o.output) != ui.Text && ui.Format(o.output) != ui.JSON:
		return refuse("", "--%s %q is neither text nor json", flagOutput, o.output)
	}
	return nil
}
