package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Helm's bound on a release name, and how helm-controller shortens a longer one.
const (
	maxReleaseName  = 53
	shortNamePrefix = 40
	shortNameDigest = 12
)

// ReleaseName returns the release's effective name: spec.releaseName, else
// <targetNamespace>-<name>, else <name>; above 53 characters the first 40, a
// dash and the first 12 hex digits of its SHA-256. A wrong name makes
// helm-controller report a successful uninstall and leave everything, so this
// must be helm-controller's own rule to the letter.
func (r Release) ReleaseName() string {
	name := r.Spec.ReleaseName
	switch {
	case name != "":
	case r.Spec.TargetNamespace != "":
		name = r.Spec.TargetNamespace + "-" + r.Name
	default:
		name = r.Name
	}
	return shortened(name)
}

// shortened returns the name under which Helm stores a release.
func shortened(name string) string {
	if len(name) <= maxReleaseName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:shortNamePrefix] + "-" + hex.EncodeToString(sum[:])[:shortNameDigest]
}

// ReleaseNamespace returns the namespace into which the chart is released.
func (r Release) ReleaseNamespace() string {
	if r.Spec.TargetNamespace != "" {
		return r.Spec.TargetNamespace
	}
	return r.Namespace
}

// StorageNamespace returns where Helm keeps the release's Secrets:
// status.storageNamespace if set, else what the specification says.
func (r Release) StorageNamespace() string {
	if r.Status.StorageNamespace != "" {
		return r.Status.StorageNamespace
	}
	return r.specStorageNamespace()
}

func (r Release) specStorageNamespace() string {
	if r.Spec.StorageNamespace != "" {
		return r.Spec.StorageNamespace
	}
	return r.Namespace
}

// Claim names what the release claims, equal for two that name the same release in
// the same storage (B4.1b). A remote one keeps its storage in another cluster, so it
// claims nothing here.
func (r Release) Claim() string {
	if r.Spec.Remote {
		return "remote/" + r.UID
	}
	return r.StorageNamespace() + "/" + r.ReleaseName()
}

// Rivals returns those of the others that name the same release as r on which
// something hangs (B4.1b). One whose storage is in another namespace than itself, while
// that is not allowed, is never acted on: it must not take a fence away from the tenant
// whose storage it names. Of a terminating release only those that live on count, since
// the others want nothing kept; and there one counts all the same whose history says
// that helm-controller runs the release for it, which a name alone does not get: a
// reminder would have it uninstalled.
func (o Options) Rivals(r Release, others []Release) []Release {
	var rivals []Release
	for _, other := range others {
		switch {
		case r.Terminating() && other.Terminating():
		case !o.crossesNamespaces(other), r.Terminating() && other.runs(r):
			rivals = append(rivals, other)
		}
	}
	return rivals
}

// runs reports whether helm-controller remembers r's release as this one's.
func (r Release) runs(other Release) bool {
	latest, known := r.Remembered()
	return known && latest.Name == other.ReleaseName() && latest.Namespace == other.ReleaseNamespace()
}

// crossesNamespaces reports whether the release keeps its storage in another namespace
// while that is not allowed (B4.1b).
func (o Options) crossesNamespaces(r Release) bool {
	return r.StorageNamespace() != r.Namespace && !o.AllowCrossNamespaceStorage
}

// Disagrees reports whether what helm-controller recorded names another storage
// or another release than the specification does. helm-controller is then about
// to move the release; whatever we read could be the wrong one of two, so
// nothing is done (B, "Names"). What it has forgotten is in no history any more; then
// its own account of the last attempt tells, or an edit of a stuck release that names
// another existing one, and a delete, would have that other one uninstalled.
func (r Release) Disagrees() bool {
	if r.Status.StorageNamespace != "" && r.Status.StorageNamespace != r.specStorageNamespace() {
		return true
	}
	if latest, known := r.Remembered(); known {
		return latest.Name != r.ReleaseName() || latest.Namespace != r.ReleaseNamespace()
	}
	namespace, name, told := r.Status.Released.attempted()
	if !told {
		namespace, name, told = r.Status.Ready.attempted()
	}
	return told && (shortened(name) != r.ReleaseName() || namespace != r.ReleaseNamespace())
}

// attempted returns the release that helm-controller's last attempt was of, where the
// condition says so. It begins the message with that, before anything of a chart's or
// of Helm's, and gives the name as it was asked for, however long.
func (c Condition) attempted() (namespace, name string, told bool) {
	for _, verb := range []string{"upgrade", "install"} {
		rest, found := strings.CutPrefix(c.Message, "Helm "+verb+" failed for release ")
		if target, _, ends := strings.Cut(rest, " with chart "); found && ends {
			return strings.Cut(target, "/")
		}
	}
	return namespace, name, false
}
