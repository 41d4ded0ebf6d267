package decide

import (
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// NamespaceFound says what a read of a Namespace object gave.
type NamespaceFound int

// What a read of a Namespace can give. Denied is a definite 403, told apart
// because A6.2 allows kube-system to be unreadable.
const (
	NamespaceFailed NamespaceFound = iota
	NamespacePresent
	NamespaceAbsent
	NamespaceDenied
)

// NamespaceRead is one read of a Namespace object.
type NamespaceRead struct {
	Found NamespaceFound
	UID   string
}

// ClusterRead is one reading of the cluster's identity. KubeSystem is read only
// where the evidence records it.
type ClusterRead struct {
	Sent, Answered        time.Duration
	Namespace, KubeSystem NamespaceRead
}

// doubtCluster says why a reading does not prove the recorded cluster, or
// returns "". UID preconditions do not protect against a rebuilt cluster behind
// the same kubeconfig: there every read answers 404, and an empty cluster would
// pass for a clean one (A3.9, A6.2).
func doubtCluster(recorded identity.Cluster, read ClusterRead) string {
	if read.Namespace.Found == NamespaceFailed || read.Namespace.Found == NamespaceDenied {
		return "the target Namespace could not be read"
	}
	if recorded.KubeSystemUID == "" {
		return doubtNamespaceAlone(recorded, read, "and the evidence does not record kube-system's UID")
	}
	switch read.KubeSystem.Found {
	case NamespacePresent:
		if read.KubeSystem.UID != recorded.KubeSystemUID {
			return fmt.Sprintf("this is another cluster: kube-system has the UID %s, and the evidence records %s", read.KubeSystem.UID, recorded.KubeSystemUID)
		}
		// The same cluster. A namespace that was made anew, or is gone, can
		// still hold what a forced finalize left behind: each resource is
		// judged by its own absence read.
		return ""
	case NamespaceDenied:
		return doubtNamespaceAlone(recorded, read, "and kube-system may no longer be read")
	default:
		return "kube-system could not be read, and the evidence records its UID"
	}
}

// doubtNamespaceAlone judges where kube-system cannot help.
func doubtNamespaceAlone(recorded identity.Cluster, read ClusterRead, because string) string {
	if read.Namespace.Found == NamespaceAbsent {
		return "the target Namespace does not exist, " + because
	}
	if read.Namespace.UID != recorded.NamespaceUID {
		return fmt.Sprintf("the target Namespace has the UID %s and the evidence records %s, %s", read.Namespace.UID, recorded.NamespaceUID, because)
	}
	return ""
}

// doubtAgain judges a later reading: it must prove the recorded cluster by
// itself and agree with the first, since a load balancer may have changed
// clusters between two reads (A6.2).
func doubtAgain(recorded identity.Cluster, first, later ClusterRead) string {
	if doubt := doubtCluster(recorded, later); doubt != "" {
		return "the cluster's identity, read again: " + doubt
	}
	if later.Namespace != first.Namespace {
		return "the target Namespace changed while cleanup ran"
	}
	return ""
}

// clusterDoubt is the first doubt that any reading so far leaves.
func clusterDoubt(s State) string {
	for i, read := range s.Cluster {
		doubt := doubtCluster(s.Recorded, read)
		if i > 0 {
			doubt = doubtAgain(s.Recorded, s.Cluster[0], read)
		}
		if doubt != "" {
			return doubt
		}
	}
	return ""
}

// clusterReadSince finds the first reading of the identity that was sent after since.
// The moment itself is after it, since what the reading follows was answered by then.
func clusterReadSince(s State, since time.Duration) (ClusterRead, bool) {
	for _, read := range s.Cluster {
		if read.Sent >= since {
			return read, true
		}
	}
	return ClusterRead{}, false
}
