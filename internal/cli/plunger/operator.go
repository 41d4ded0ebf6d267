package plunger

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/unfence"
	"github.com/holdfast-project/holdfast/internal/ui"
)

// The operator's commands (B8.4) run from a workstation with the operator's own
// credentials, and need nothing of a running flux-plunger.
const (
	operatorQPS   = 20
	operatorBurst = 40
)

// connect returns the client of the operator's kubeconfig.
func connect() (*kube.Objects, error) {
	config, err := plunger.Connect(operatorQPS, operatorBurst)
	if err != nil {
		return nil, err
	}
	return kube.NewObjects(config, contract.FieldManager)
}

// fenceLine is one fence as it is shown.
type fenceLine struct {
	Release  string `json:"release"`
	Age      string `json:"age"`
	Deleted  bool   `json:"deleted"`
	WaitsFor string `json:"waitsFor"`
}

func newFences() *cobra.Command {
	return listing("fences", "List every release that carries the fence, and what the fence waits for",
		[]string{"release", "age", "deleted", "waits for"},
		func(r decide.Release, now time.Time) (any, []string) {
			if !r.Fenced() {
				return nil, nil
			}
			line := fenceLine{Release: r.Ref(), Age: "unknown", Deleted: r.Terminating(), WaitsFor: r.WaitsFor()}
			if since := r.FencedSince(); !since.IsZero() {
				line.Age = now.Sub(since).Round(time.Second).String()
			}
			return line, []string{line.Release, line.Age, fmt.Sprint(line.Deleted), line.WaitsFor}
		})
}

// candidateLine is one suspension that an earlier flux-plunger may have left.
type candidateLine struct {
	Release string `json:"release"`
	Confirm string `json:"confirm"`
	Command string `json:"command"`
}

func newCandidates() *cobra.Command {
	return listing("candidates", "List suspensions that an earlier flux-plunger may have left, with the command by which you lift each; it changes nothing",
		[]string{"release", "confirm", "command"},
		func(r decide.Release, _ time.Time) (any, []string) {
			if !r.Suspended() || !r.Processed() || r.Suspension() == decide.Ours {
				return nil, nil
			}
			line := candidateLine{Release: r.Ref(), Confirm: "that no migration, restore or operator holds it",
				Command: ui.Quote([]string{"flux", "resume", "helmrelease", r.Name, "--namespace", r.Namespace})}
			return line, []string{line.Release, line.Confirm, line.Command}
		})
}

// listing is a read-only command over all HelmReleases; row returns nil for one
// that it is not about.
func listing(use, short string, header []string, row func(decide.Release, time.Time) (any, []string)) *cobra.Command {
	var output, namespace string
	command := &cobra.Command{
		Use: use, Short: short, Args: noArguments, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return usageError{err}
			}
			objects, err := connect()
			if err != nil {
				return err
			}
			releases, err := gather.NewReader(objects).Releases(cmd.Context(), namespace, "")
			if err != nil {
				return err
			}
			items, rows := []any{}, [][]string{}
			for _, r := range releases {
				if item, cells := row(r, time.Now()); item != nil {
					items, rows = append(items, item), append(rows, cells)
				}
			}
			return show(cmd.OutOrStdout(), output, header, items, rows)
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "table", "The form: table, json or yaml.")
	command.Flags().StringVarP(&namespace, "namespace", "n", "", "Only this namespace; by default all.")
	return command
}

func checkOutput(output string) error {
	if output != "table" && output != "json" && output != "yaml" {
		return fmt.Errorf("reading --output: %q is none of table, json, yaml", output)
	}
	return nil
}

// oneRelease takes the one argument of a command apart.
func oneRelease(command string, args []string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(strings.Join(args, " "), "/")
	if len(args) != 1 || !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%s takes one NAMESPACE/NAME", command)
	}
	return namespace, name, nil
}

func show(out io.Writer, output string, header []string, items []any, rows [][]string) error {
	data, err := json.MarshalIndent(items, "", "  ")
	if err == nil && output == "yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return fmt.Errorf("encoding the list: %w", err)
	}
	if output != "table" {
		_, err = fmt.Fprintln(out, strings.TrimRight(string(data), "\n"))
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, strings.ToUpper(strings.Join(header, "\t")))
	for _, cells := range rows {
		for i := range cells {
			cells[i] = ui.Escape(cells[i])
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func newReleaseFence() *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use:   "release-fence NAMESPACE/NAME",
		Short: "Let one release go: remove its fence with a guarded patch, without waiting for an uninstall",
		Args:  cobra.ArbitraryArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, err := oneRelease("release-fence", args)
			if err != nil {
				return usageError{err}
			}
			objects, err := connect()
			if err != nil {
				return err
			}
			return releaseFence(cmd.Context(), objects, namespace, name, yes, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	command.Flags().BoolVar(&yes, "yes", false, "Do not ask: the uninstall has run, or is not wanted.")
	return command
}

// releaseFence asks before it removes the fence. It refuses a live release that
// we suspend: there the suspension must be lifted first, by flux-plunger, or it
// would stand without its fence (B9.3).
func releaseFence(ctx context.Context, objects *kube.Objects, namespace, name string, yes bool, in io.Reader, out, questions io.Writer) error {
	release, err := gather.NewReader(objects).Release(ctx, namespace, name)
	switch {
	case err != nil:
		return err
	case release == nil:
		return fmt.Errorf("HelmRelease %s/%s does not exist", namespace, name)
	case !release.Fenced():
		return fmt.Errorf("HelmRelease %s carries no fence", release.Ref())
	case !release.Terminating() && release.Suspension() == decide.Ours:
		return fmt.Errorf("HelmRelease %s is in the middle of a recovery, suspended by flux-plunger: let flux-plunger end it, or stop flux-plunger, which lifts it", release.Ref())
	}
	meaning := "without the fence the object goes as soon as no other finalizer holds it, uninstalled or not"
	if !release.Terminating() {
		meaning = "without the fence a delete of this stuck release orphans its resources; a running flux-plunger sets it again"
	}
	_, _ = fmt.Fprintf(questions, "HelmRelease %s waits for %s; %s\n", release.Ref(), release.WaitsFor(), meaning)
	if !yes && !confirmed(in, questions) {
		return errors.New("nothing was changed; answer yes, or give --yes, when the uninstall has run or is not wanted")
	}
	outcome, err := unfence.New(objects).LetGo(ctx, namespace, name, release.UID)
	if err != nil {
		return err
	}
	lost := ""
	if outcome.Unanswered {
		lost = "; a request got no answer and may have been carried out; none is left"
	}
	_, err = fmt.Fprintf(out, "%s: %d copies of the fence removed%s\n", release.Ref(), outcome.Removed, lost)
	return err
}

func confirmed(in io.Reader, questions io.Writer) bool {
	_, _ = fmt.Fprint(questions, "Has the uninstall run, or is it not wanted? (yes/no) ")
	answer, _ := bufio.NewReader(in).ReadString('\n')
	return strings.TrimSpace(answer) == "yes"
}
