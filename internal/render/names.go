package render

import (
	"regexp"
	"strings"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// maxReleaseName is Helm's own bound.
const maxReleaseName = 53

// maxName is what fits a Job's name into the labels and host names that
// Kubernetes derives from it.
const maxName = 63

// The annotations that keep Argo CD away: an application that tracks its
// objects by the instance label takes ours for objects that Git has lost. The
// first keeps it from pruning them, the second keeps them out of the
// application's sync status, which would otherwise say OutOfSync and tempt
// somebody to prune by hand.
const (
	argoSyncAnnotation    = "argocd.argoproj.io/sync-options"
	argoSyncValue         = "Prune=false"
	argoCompareAnnotation = "argocd.argoproj.io/compare-options"
	argoCompareValue      = "IgnoreExtraneous"
)

var (
	noncePattern   = regexp.MustCompile(`^[0-9a-f]{32}$`)
	releasePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// ValidReleaseName reports whether Helm allows a release of this name.
func ValidReleaseName(name string) bool {
	return len(name) <= maxReleaseName && releasePattern.MatchString(name)
}

// objectName returns <release>-preflight-<slot>-<8 hex of the nonce>, at most
// 63 characters (A4.3). A release that does not fit is cut and carries six hex
// digits of its own hash, so that two long releases of one namespace still have
// names of their own; a dot becomes a dash, because a Pod's host name is made of
// this name. It takes a valid slot, a valid release name and a nonce of 32 hex
// digits.
func objectName(release string, slot identity.Slot, nonce string) string {
	suffix := "-preflight-" + string(slot) + "-" + nonce[:8]
	prefix := strings.ReplaceAll(release, ".", "-")
	if len(prefix)+len(suffix) > maxName {
		hash := "-" + strictjson.Sum([]byte(release))[:6]
		prefix = strings.TrimRight(prefix[:maxName-len(suffix)-len(hash)], "-") + hash
	}
	return prefix + suffix
}

// objectLabels are all the labels that an object, or a Job's Pod template, has.
func objectLabels(release string, slot identity.Slot) map[string]string {
	return map[string]string{
		identity.InstanceLabel:  release,
		identity.ComponentLabel: identity.Component(slot),
	}
}

// objectAnnotations lack the plan hash, which withPlanHash sets.
func objectAnnotations(nonce string) map[string]string {
	return map[string]string{
		identity.NonceAnnotation: nonce,
		argoSyncAnnotation:       argoSyncValue,
		argoCompareAnnotation:    argoCompareValue,
	}
}
