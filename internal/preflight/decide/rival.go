package decide

import "github.com/holdfast-project/holdfast/internal/identity"

// Present is a Job or Pod that was found in the namespace, by its metadata.
type Present struct {
	Object      identity.Object
	Labels      map[string]string
	Annotations map[string]string
	// Terminating is true once it has a deletion timestamp.
	Terminating bool
	// Finished is true only where the caller read that a Job is complete or
	// failed. A caller that reads metadata alone leaves it false.
	Finished bool
}

// Rivals returns what says that another preflight of this release is under way
// or not yet cleaned up (A4.2d): a Pod, or an unfinished or terminating Job, of
// this release that carries a nonce or the preflight's component label. The
// lock of one evidence directory does not see the run of another.
func Rivals(release string, present []Present) []Present {
	var rivals []Present
	for _, p := range present {
		ours := p.Annotations[identity.NonceAnnotation] != "" || p.Labels[identity.ComponentLabel] == identity.ComponentPreflight
		alive := p.Object.Kind != "Job" || !p.Finished || p.Terminating
		if p.Labels[identity.InstanceLabel] == release && ours && alive {
			rivals = append(rivals, p)
		}
	}
	return rivals
}
