package preflight

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// The flags' names, as the operator's page words them.
const (
	flagPreflightOnly = "preflight-only"
	flagCleanup       = "cleanup-preflight"
	flagResume        = "resume"

	flagKubeconfig  = "kubeconfig"
	flagContext     = "context"
	flagNamespace   = "namespace"
	flagRelease     = "release"
	flagEvidenceDir = "evidence-dir"

	flagSettled    = "previous-process-settled"
	flagUnrestored = "evidence-unrestored"

	flagChart           = "chart"
	flagValues          = "values"
	flagImage           = "controller-image"
	flagProfile         = "profile"
	flagTimeout         = "timeout"
	flagAllowFilesystem = "allow-filesystem"
	flagRetainHelper    = "retain-helper"
	flagOutput          = "output"

	flagSlot      = "slot"
	flagStatement = "statement"
)

// options are the values of all flags of the root command, not yet judged.
type options struct {
	preflightOnly, cleanup, resume bool

	kubeconfig, context, namespace, release, evidenceDir string

	settled, unrestored bool

	chart, values, image, profile string
	timeout                       time.Duration
	allowFilesystem               string
	retainHelper                  bool
	output                        string
}

// defaultTimeout bounds a run from its first create to its last Job. It is long
// enough for a migration and short enough for a maintenance window.
const defaultTimeout = 15 * time.Minute

func (o *options) register(flags *pflag.FlagSet) {
	flags.SortFlags = false
	boolean(flags, &o.preflightOnly, flagPreflightOnly, "start the candidate image in temporary Jobs, verify it and remove everything")
	boolean(flags, &o.resume, flagResume, "with --preflight-only: once more in the directory of an interrupted preflight, after its cleanup")
	boolean(flags, &o.cleanup, flagCleanup, "remove what an interrupted preflight's evidence proves to be its own")

	text(flags, &o.kubeconfig, flagKubeconfig, "", "kubeconfig `FILE`, private (mode 600) and not a link")
	text(flags, &o.context, flagContext, "", "`NAME` of the context in the kubeconfig")
	text(flags, &o.namespace, flagNamespace, "", "`NAME` of the release's namespace")
	text(flags, &o.release, flagRelease, "", "`NAME` of the Helm release")
	text(flags, &o.evidenceDir, flagEvidenceDir, "", "evidence `DIR`: new for a preflight, the original one for a resume or a cleanup")

	text(flags, &o.chart, flagChart, "", "`CHART` to render, a directory or a .tgz file (preflight)")
	text(flags, &o.values, flagValues, "", "values `FILE`, private (mode 600) and not a link (preflight)")
	text(flags, &o.image, flagImage, "", "candidate image as `NAME@sha256:DIGEST` (preflight)")
	text(flags, &o.profile, flagProfile, "", "profile `FILE`; without it the built-in one for OpenClaw Enterprise (preflight)")
	duration(flags, &o.timeout, flagTimeout, defaultTimeout, "longest `DURATION` from the first create to the last Job's end, whole seconds, 1s to 24h (preflight)")
	text(flags, &o.allowFilesystem, flagAllowFilesystem, "", "accept evidence on a file system of this `TYPE`, for example nfs (preflight)")
	boolean(flags, &o.retainHelper, flagRetainHelper, "keep a copy of this executable with the evidence (preflight)")
	o.retainHelper = true
	flags.Lookup(flagRetainHelper).DefValue = "true"
	text(flags, &o.output, flagOutput, "text", "`text|json`: lines for people, or JSON lines on stdout (preflight)")

	boolean(flags, &o.settled, flagSettled, "you attest that the previous process, its children and their requests are settled (resume, cleanup)")
	boolean(flags, &o.unrestored, flagUnrestored, "you attest that this is the original directory with its original files (resume, cleanup)")
}

// errRepeated is why a flag that is given twice is refused: with two values the
// last would win in silence, and the first may be the one that was meant.
var errRepeated = errors.New("it is given twice")

// errEmpty is why a text flag without a text is refused: with --profile "$PROFILE"
// and a variable that is not set, the built-in profile would run in silence.
var errEmpty = errors.New("it is empty")

// once is a flag value that may be set one time.
type once struct {
	set   bool
	parse func(string) error
	show  func() string
	kind  string
}

func (o *once) Set(s string) error {
	if o.set {
		return errRepeated
	}
	o.set = true
	return o.parse(s)
}

func (o *once) String() string {
	if o.show == nil {
		return ""
	}
	return o.show()
}

func (o *once) Type() string { return o.kind }

func text(flags *pflag.FlagSet, target *string, name, value, usage string) {
	*target = value
	flags.Var(&once{kind: "string", show: func() string { return *target }, parse: func(s string) error {
		if s == "" {
			return errEmpty
		}
		*target = s
		return nil
	}}, name, usage)
}

func boolean(flags *pflag.FlagSet, target *bool, name, usage string) {
	flags.Var(&once{kind: "bool", show: func() string { return strconv.FormatBool(*target) }, parse: func(s string) (err error) {
		*target, err = strconv.ParseBool(s)
		return err
	}}, name, usage)
	flags.Lookup(name).NoOptDefVal = "true"
}

func duration(flags *pflag.FlagSet, target *time.Duration, name string, value time.Duration, usage string) {
	*target = value
	flags.Var(&once{kind: "duration", show: func() string { return target.String() }, parse: func(s string) (err error) {
		*target, err = time.ParseDuration(s)
		return err
	}}, name, usage)
}
