package preflight

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-project/holdfast/internal/cleanup/advice"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/imageindex"
	"github.com/holdfast-project/holdfast/internal/kube"
	run "github.com/holdfast-project/holdfast/internal/preflight"
	"github.com/holdfast-project/holdfast/internal/render"
	"github.com/holdfast-project/holdfast/internal/ui"
)

// maxValuesBytes bounds a values file.
const maxValuesBytes = 4 << 20

// preflight runs --preflight-only (A4.1). The arguments are judged.
func (c *command) preflight() error {
	signals := watch(context.Background())
	defer signals.release()

	config, err := c.runConfig(signals)
	if err != nil {
		return err
	}
	outcome, err := run.Run(signals.first, config)
	c.printer.Close()
	return c.endRun(signals, outcome, err)
}

// printAs goes on in the chosen format.
func (c *command) printAs(format string) {
	c.printer.Close()
	c.printer = c.printerOf(ui.Format(format))
}

// runConfig reads the inputs, each of them once, and builds the client from the
// kubeconfig's bytes. Nothing is sent.
func (c *command) runConfig(signals *interrupts) (run.Config, error) {
	kubeconfig, err := readProtected(flagKubeconfig, c.options.kubeconfig, maxKubeconfigBytes)
	if err != nil {
		return run.Config{}, err
	}
	self, err := helper(c.env.Build)
	if err != nil {
		return run.Config{}, &run.Refusal{Sentence: err.Error(), Err: err}
	}
	config, err := c.attemptConfig(signals, kubeconfig, self)
	if err == nil && c.options.retainHelper {
		config.Executable = identity.OpenExecutable
		c.nameNoexec(c.options.evidenceDir)
	}
	return config, err
}

// attemptConfig is what a run and a resume have in common.
func (c *command) attemptConfig(signals *interrupts, kubeconfig protected, self identity.Helper) (run.Config, error) {
	o := c.options
	var none run.Config
	values, err := readProtected(flagValues, o.values, maxValuesBytes)
	if err != nil {
		return none, err
	}
	var profile []byte
	if o.profile != "" {
		if profile, err = readPublic(flagProfile, o.profile, render.MaxProfileBytes); err != nil {
			return none, err
		}
	}
	client, err := c.client(kubeconfig)
	if err != nil {
		return none, err
	}
	return run.Config{
		Files: c.env.Files, Directory: o.evidenceDir, AllowFileSystem: o.allowFilesystem,
		Helper:         self,
		KubeconfigPath: kubeconfig.path, KubeconfigSHA256: kubeconfig.sha256,
		Context: o.context, Namespace: o.namespace, Release: o.release,
		Chart: o.chart, Values: values.data, ValuesName: filepath.Base(values.path), Profile: profile,
		Image: o.image, Timeout: o.timeout,
		Cluster: client, Index: imageindex.Listed, Report: runReporter{c.printer}, Redact: c.redact, Escape: ui.Escape, GiveUp: signals.second.Done(),
	}, nil
}

// client builds a client from a kubeconfig that was read once. A plugin that the
// kubeconfig runs to log in is named before it can run.
func (c *command) client(kubeconfig protected) (*kube.Client, error) {
	client, err := kube.New(kubeconfig.data, c.options.context, kube.Options{
		Dir:       filepath.Dir(kubeconfig.path),
		UserAgent: ui.Program + "/" + c.env.Build.Revision,
		Warn:      func(text string) { c.printer.Warn("the API server says: " + c.redact.String(text)) },
	})
	if err != nil {
		return nil, &run.Refusal{Sentence: c.redact.String(err.Error()), Err: err}
	}
	for _, secret := range client.Credentials() {
		c.redact.Add([]byte(secret))
	}
	if plugin := client.ExecPlugin(); plugin != "" {
		c.printer.Step("the kubeconfig runs " + plugin + " to log in")
	}
	return client, nil
}

// nameNoexec warns, at the start and beside the command that it spoils, that the kept
// executable cannot be run in place (A3.6): an operator should not learn it in front
// of a cleanup.
func (c *command) nameNoexec(directory string) {
	var mount unix.Statfs_t
	if unix.Statfs(filepath.Dir(absolute(directory)), &mount) == nil && mount.Flags&unix.ST_NOEXEC != 0 {
		c.printer.Warn("the evidence lies on a noexec mount: copy the kept executable elsewhere before you run it")
	}
}

// readPublic reads an input that holds no credentials. A link or a FIFO is still
// refused: the first could be swapped, the second would hang.
func readPublic(flag, path string, max int64) ([]byte, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return nil, badInput(flag, path, err)
	}
	if !before.Mode().IsRegular() {
		return nil, badInput(flag, path, errors.New("it is not a regular file"))
	}
	if before.Size() > max {
		return nil, badInput(flag, path, errors.New("it is too large"))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, badInput(flag, path, err)
	}
	return data, nil
}

// runReporter shows a run's progress.
type runReporter struct{ *ui.Printer }

func (r runReporter) Slot(slot, phase, detail string, mark run.Mark) {
	marks := map[run.Mark]ui.Mark{run.Busy: ui.Busy, run.Good: ui.Good, run.Bad: ui.Bad}
	r.Printer.Slot(slot, phase, detail, marks[mark])
}

// endRun says how the run ended and what comes next, and picks the exit code
// (A4.1). Every end but exit 0, once there is a directory, prints the exact
// cleanup command.
func (c *command) endRun(signals *interrupts, outcome run.Outcome, err error) error {
	c.showCleanup(outcome)
	code, hint := exitIncomplete, ""
	var refused *run.Refusal
	number, interrupted := signals.code()
	switch {
	case err == nil:
		code = exitComplete
		c.summarise(outcome)
		c.printer.Note("the candidate passed its preflight, and everything that it created is confirmed absent")
	case errors.Is(err, run.ErrReconciled):
		code = outcome.Result.Verdict.ExitCode()
		c.summarise(outcome)
	case errors.As(err, &refused):
		code, hint = exitRefused, refused.Hint
	case interrupted && outcome.ResultPath == "" && !recordFailed(err):
		code = number
	}
	if err == run.ErrInterrupted { //nolint:errorlint // one that wraps it says more
		err = errors.New("interrupted by a signal")
	}
	sentence := ""
	if err != nil {
		sentence = err.Error()
		c.printer.Error(err, hint)
		c.nextAfterRun(outcome)
	}
	c.printer.End(code, sentence, hint)
	c.code = code
	return nil
}

// recordFailed reports whether a run ended because its evidence could not be
// written. That is exit 1 also when a signal came (A4.1, A6.10): 128 plus its number
// would say that what happened is on the disk.
func recordFailed(err error) bool {
	var lost *run.NotDurable
	var unfinished *run.Unfinished
	return errors.As(err, &lost) || errors.As(err, &unfinished) && unfinished.Err != nil
}

// summarise lists the Jobs that passed.
func (c *command) summarise(outcome run.Outcome) {
	var rows [][]string
	for _, job := range outcome.Passed {
		rows = append(rows, []string{string(job.Slot), job.Took.String(), job.ImageID})
	}
	c.printer.Table([]string{"slot", "took", "image that ran"}, rows)
}

// showCleanup tells how the run's own cleanup ended: its result on stdout and, when
// something is left, what and why.
func (c *command) showCleanup(outcome run.Outcome) {
	if outcome.ResultPath == "" {
		return
	}
	c.printer.Path(outcome.ResultPath)
	if outcome.Result.Verdict == evidence.Complete {
		return
	}
	for _, line := range advice.Summary(outcome.Inventory, outcome.Result, outcome.ResultPath) {
		c.printer.Step(line)
	}
}

// nextAfterRun prints the cleanup command with the run's own values, and where
// the executable is kept that alone may run it.
func (c *command) nextAfterRun(outcome run.Outcome) {
	if outcome.Directory == "" {
		return
	}
	program := ui.Program
	if outcome.HelperRetained {
		program = filepath.Join(outcome.Directory, evidence.HelperDirectory, evidence.HelperFile)
		c.printer.Note("the executable that wrote this evidence is kept at " + program)
		c.nameNoexec(outcome.Directory)
	} else {
		c.printer.Note("no copy of the executable was kept: clean up with this very build")
	}
	purpose := "after the previous process and its requests are settled, clean up with"
	if outcome.ResultPath != "" && outcome.Result.Verdict == evidence.Complete {
		// It failed, and nobody is to spend the night on looking for what it left.
		purpose = "everything that it created is confirmed absent; to confirm that again, clean up with"
	}
	o := c.options
	c.printer.Command(purpose, []string{
		program, "--" + flagCleanup,
		"--" + flagKubeconfig, absolute(o.kubeconfig), "--" + flagContext, o.context,
		"--" + flagNamespace, o.namespace, "--" + flagRelease, o.release,
		"--" + flagEvidenceDir, outcome.Directory, "--" + flagSettled, "--" + flagUnrestored,
	})
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}
