package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Difference is one way in which the cluster would store something else than
// was sent. It names a path and never a value, since values can be secret; an
// image is the one exception.
type Difference struct {
	Path string
	// Problem is "removed", "changed", "added", or for an image what it
	// became.
	Problem string
}

// String returns "path: problem".
func (d Difference) String() string { return d.Path + ": " + d.Problem }

// DryRun compares a dry run's answer with the body that was sent (A4.2b).
// Everything sent must be there unchanged, lists with nothing put between or
// behind; and what decides over an object's life or over what its Pod runs and
// may do must not have been added. Other additions are the API server's
// defaults and marks of policies that do no harm, among them labels: those of a
// Pod template are judged with PodLabels and Matches.
func DryRun(sent []byte, answer *unstructured.Unstructured) ([]Difference, error) {
	var asked unstructured.Unstructured
	if err := asked.UnmarshalJSON(sent); err != nil {
		return nil, errors.New("comparing a dry run: the body that was sent is not a Kubernetes object")
	}
	if answer == nil {
		return nil, errors.New("comparing a dry run: there is no answer")
	}
	want, got := asked.Object, answer.Object
	differences := compare("", want, got)
	differences = append(differences, additions(asked.GetKind(), want, got)...)
	slices.SortFunc(differences, func(a, b Difference) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(differences), nil
}

// compare demands that got holds all of want.
func compare(path string, want, got any) []Difference {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return unequal(path, want, got)
		}
		var found []Difference
		for key, value := range w {
			found = append(found, compare(join(path, key), value, g[key])...)
		}
		return found
	case []any:
		g, ok := got.([]any)
		if !ok {
			return unequal(path, want, got)
		}
		return compareLists(path, w, g)
	}
	if want == got {
		return nil
	}
	return unequal(path, want, got)
}

// compareLists goes by position: a container or rule that a webhook puts in
// front moves the others, and each of them is then a change.
func compareLists(path string, want, got []any) []Difference {
	var found []Difference
	for i, value := range want {
		if i >= len(got) {
			found = append(found, Difference{fmt.Sprintf("%s[%d]", path, i), "removed"})
			continue
		}
		found = append(found, compare(fmt.Sprintf("%s[%d]", path, i), value, got[i])...)
	}
	for i := len(want); i < len(got); i++ {
		found = append(found, Difference{fmt.Sprintf("%s[%d]", path, i), "added"})
	}
	return found
}

// unequal lets pass that the API server leaves out what is empty. A false is
// not empty: it is sent only where leaving it out means something else, as with
// automountServiceAccountToken.
func unequal(path string, want, got any) []Difference {
	switch {
	case empty(want) && empty(got):
		return nil
	case empty(got):
		return []Difference{{path, "removed"}}
	case strings.HasSuffix(path, ".image"):
		return []Difference{{path, fmt.Sprintf("changed from %v to %v", want, got)}}
	default:
		return []Difference{{path, "changed"}}
	}
}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	}
	return false
}

// additions reports fields that were not sent and must not be there.
func additions(kind string, want, got map[string]any) []Difference {
	found := added("", want, got, "metadata.ownerReferences", "metadata.finalizers", "metadata.deletionTimestamp")
	switch kind {
	case "NetworkPolicy":
		found = append(found, added("", want, got, "spec.ingress", "spec.egress")...)
		found = append(found, grown("spec.podSelector", at(want, "spec.podSelector"), at(got, "spec.podSelector"))...)
		found = append(found, grown("spec.podSelector.matchLabels", at(want, "spec.podSelector.matchLabels"), at(got, "spec.podSelector.matchLabels"))...)
		found = append(found, grownItems("spec.ingress", want, got)...)
		found = append(found, grownItems("spec.egress", want, got)...)
	case "Job":
		found = append(found, added("", want, got, jobAdditions()...)...)
		// A volume has one source: another key is another source.
		found = append(found, grownItems("spec.template.spec.volumes", want, got)...)
		for _, list := range []string{"spec.template.spec.initContainers", "spec.template.spec.containers"} {
			found = append(found, containerAdditions(list, want, got)...)
		}
	}
	return found
}

// jobAdditions: the first group makes the Job go by itself, end otherwise or
// belong to another controller; the second gives its Pod more than was asked.
func jobAdditions() []string {
	return []string{
		"spec.ttlSecondsAfterFinished", "spec.managedBy", "spec.podFailurePolicy", "spec.successPolicy",
		"spec.template.metadata.ownerReferences", "spec.template.metadata.finalizers",

		"spec.template.spec.initContainers", "spec.template.spec.volumes", "spec.template.spec.nodeName",
		"spec.template.spec.hostNetwork", "spec.template.spec.hostPID", "spec.template.spec.hostIPC",
		"spec.template.spec.serviceAccountName", "spec.template.spec.ephemeralContainers",
	}
}

func containerAdditions(list string, want, got map[string]any) []Difference {
	wanted, _ := at(want, list).([]any)
	gotten, _ := at(got, list).([]any)
	var found []Difference
	for i := range min(len(wanted), len(gotten)) {
		w, _ := wanted[i].(map[string]any)
		g, _ := gotten[i].(map[string]any)
		found = append(found, added(fmt.Sprintf("%s[%d]", list, i), w, g,
			"command", "args", "env", "envFrom", "volumeMounts", "volumeDevices", "lifecycle", "ports", "workingDir",
			"securityContext.privileged", "securityContext.procMount", "securityContext.runAsUser")...)
		for _, inner := range grownItems("env", w, g) {
			found = append(found, Difference{join(fmt.Sprintf("%s[%d]", list, i), inner.Path), inner.Problem})
		}
	}
	return found
}

func added(prefix string, want, got map[string]any, paths ...string) []Difference {
	var found []Difference
	for _, path := range paths {
		if value := at(got, path); empty(at(want, path)) && !empty(value) && value != false {
			found = append(found, Difference{join(prefix, path), "added"})
		}
	}
	return found
}

// grown reports every field of a map that was not sent.
func grown(path string, want, got any) []Difference {
	w, _ := want.(map[string]any)
	g, _ := got.(map[string]any)
	var found []Difference
	for key, value := range g {
		if empty(w[key]) && !empty(value) {
			found = append(found, Difference{join(path, key), "added"})
		}
	}
	return found
}

// grownItems does so for each map of a list, by position.
func grownItems(list string, want, got map[string]any) []Difference {
	wanted, _ := at(want, list).([]any)
	gotten, _ := at(got, list).([]any)
	var found []Difference
	for i := range min(len(wanted), len(gotten)) {
		found = append(found, grown(fmt.Sprintf("%s[%d]", list, i), wanted[i], gotten[i])...)
	}
	return found
}

// at returns what is under a dotted path, nil when there is nothing.
func at(object map[string]any, path string) any {
	var value any = object
	for key := range strings.SplitSeq(path, ".") {
		// Of what is no map everything is absent.
		table, _ := value.(map[string]any)
		value = table[key]
	}
	return value
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
