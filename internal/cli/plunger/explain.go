package plunger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/walk"
)

// explanation is what was read about a release and what would be decided.
type explanation struct {
	Release    string   `json:"release"`
	Name       string   `json:"effectiveName"`
	Storage    string   `json:"storageNamespace"`
	Deleted    bool     `json:"deleted"`
	Fenced     bool     `json:"fenced"`
	Suspension string   `json:"suspension"`
	Ready      string   `json:"ready"`
	Remembers  int      `json:"rememberedRevision"`
	Stored     []string `json:"stored"`
	Claimed    []string `json:"claimedToo"`
	Decision   string   `json:"decision"`
	Why        string   `json:"why"`
	Tells      []string `json:"tells"`
}

func newExplain() *cobra.Command {
	var f flags
	var output string
	command := &cobra.Command{
		Use:   "explain NAMESPACE/NAME",
		Short: "Show what a controller that starts now would do about one release, and why; this command changes nothing",
		Args:  cobra.ArbitraryArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, err := oneRelease("explain", args)
			if err == nil {
				err = checkOutput(output)
			}
			if err == nil {
				err = f.checkPolicy(f.options())
			}
			if err != nil {
				return usageError{err}
			}
			objects, err := connect()
			if err != nil {
				return err
			}
			told, err := explain(cmd.Context(), objects, f.options(), namespace, name)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), output, []string{"what", "value"}, []any{told}, told.rows())
		},
	}
	f.bindPolicy(command.Flags())
	command.Flags().StringVarP(&output, "output", "o", "table", "The form: table, json or yaml.")
	return command
}

// explain asks the controller's own decision, with nothing remembered: that is what
// a flux-plunger knows when it starts (B4.4). Who else claims the release takes a
// list of all of them, as the controller's index does.
func explain(ctx context.Context, objects *kube.Objects, options decide.Options, namespace, name string) (explanation, error) {
	reader := gather.NewReader(objects)
	release, err := reader.Release(ctx, namespace, name)
	if err != nil {
		return explanation{}, err
	}
	if release == nil {
		return explanation{}, fmt.Errorf("HelmRelease %s/%s does not exist", namespace, name)
	}
	all, err := reader.Releases(ctx, "", "")
	if err != nil {
		return explanation{}, fmt.Errorf("looking for who else claims the release: %w", err)
	}
	c := &walk.Case{Namespace: namespace, Name: name, Release: release}
	for _, other := range all {
		if other.Ref() != release.Ref() && other.Claim() == release.Claim() {
			c.Claimants = append(c.Claimants, other)
		}
	}
	walker := walk.Walker{Reader: reader, Options: options, Now: time.Now}
	in, action, err := walker.Explain(ctx, c)
	if err != nil {
		return explanation{}, err
	}
	if in.Release == nil {
		return explanation{}, fmt.Errorf("HelmRelease %s/%s went while it was read", namespace, name)
	}
	return explained(in, action), nil
}

func explained(in decide.Input, action decide.Action) explanation {
	r := in.Release
	snapshot, _ := r.Remembered()
	told := explanation{Release: r.Ref(), Name: r.ReleaseName(), Storage: r.StorageNamespace(), Deleted: r.Terminating(), Fenced: r.Fenced(),
		Suspension: r.Suspension().String(), Ready: strings.TrimSpace(r.Status.Ready.Status + " " + r.Status.Ready.Message), Remembers: snapshot.Version,
		Stored: []string{}, Claimed: append([]string{}, in.Claimants...), Decision: string(action.Verb), Why: action.Why, Tells: []string{}}
	if in.Storage == nil {
		told.Stored = []string{"not asked for"}
	} else {
		for _, revision := range in.Storage.Revisions {
			told.Stored = append(told.Stored, fmt.Sprintf("%s/%s: %s", revision.Namespace, revision.Name, revision.Status))
		}
	}
	for _, event := range action.Events {
		told.Tells = append(told.Tells, string(event.Reason)+": "+event.Message)
	}
	return told
}

func (e explanation) rows() [][]string {
	return [][]string{
		{"release", e.Release}, {"effective name", e.Name}, {"storage in", e.Storage}, {"deleted", fmt.Sprint(e.Deleted)}, {"fenced", fmt.Sprint(e.Fenced)},
		{"suspension", e.Suspension}, {"ready", e.Ready}, {"remembered revision", fmt.Sprint(e.Remembers)}, {"stored", strings.Join(e.Stored, ", ")},
		{"claimed too by", strings.Join(e.Claimed, ", ")}, {"decision", e.Decision}, {"why", e.Why}, {"tells", strings.Join(e.Tells, "; ")},
	}
}
