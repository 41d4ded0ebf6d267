// Package manual writes the commands that a release owner may run by hand, for
// what Holdfast itself must not delete or cannot reach (A6.13, A7.1).
//
// Its invariant: every command carries an API-enforced UID precondition, and
// nothing enters it that a shell could read as anything but one argument. A
// printed command is no authorisation; the words around it say so.
//
// It must not import net or any k8s.io module: evidence is inspected offline.
package manual

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-project/holdfast/internal/apipath"
	"github.com/holdfast-project/holdfast/internal/identity"
)

// deleteOptions is the part of meta/v1 DeleteOptions that a command sends.
type deleteOptions struct {
	APIVersion    string `json:"apiVersion"`
	Kind          string `json:"kind"`
	Preconditions struct {
		UID string `json:"uid"`
	} `json:"preconditions"`
	PropagationPolicy string `json:"propagationPolicy"`
}

// DeleteCommand returns one shell line that deletes exactly this object: the
// API server refuses it with 409 when the name belongs to another UID. Jobs and
// Pods go in the foreground, so that dependents go first; everything else with
// Orphan, so that a stranger's object that names ours as its owner stays (A6.7).
// "kubectl delete" by itself offers no UID precondition, hence --raw.
func DeleteCommand(kubeconfig, contextName string, object identity.Object) (string, error) {
	if !identity.ValidUID(object.UID) {
		return "", fmt.Errorf("writing the command that deletes %s: its UID is not a UUID", object.Place())
	}
	resource, err := apipath.Of(object.APIVersion, object.Kind)
	if err != nil {
		return "", err
	}
	path, err := resource.Path(object.Namespace, object.Name)
	if err != nil {
		return "", err
	}
	for _, argument := range []string{kubeconfig, contextName} {
		if !utf8.ValidString(argument) || strings.ContainsFunc(argument, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return "", fmt.Errorf("writing the command that deletes %s: %q cannot be shown on a terminal as it is", object, argument)
		}
	}
	options := deleteOptions{APIVersion: "v1", Kind: "DeleteOptions", PropagationPolicy: "Orphan"}
	if object.Kind == "Job" || object.Kind == "Pod" {
		options.PropagationPolicy = "Foreground"
	}
	options.Preconditions.UID = object.UID
	body, err := json.Marshal(options)
	if err != nil {
		return "", fmt.Errorf("writing the command that deletes %s: %w", object, err)
	}
	return fmt.Sprintf("printf '%%s' %s | kubectl --kubeconfig %s --context %s delete --raw %s -f -",
		quote(string(body)), quote(kubeconfig), quote(contextName), path), nil
}

// quote makes one POSIX shell word.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
