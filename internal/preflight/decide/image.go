package decide

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ImageVerdict says what a container's imageID proves.
type ImageVerdict string

// The verdicts.
const (
	// ImageProven: it ran the candidate or a manifest that its index lists.
	ImageProven ImageVerdict = "proven"
	// ImageOther: it ran something else.
	ImageOther ImageVerdict = "other"
	// ImageUnknown: the node has not said what it ran.
	ImageUnknown ImageVerdict = "unknown"
)

// JudgeImage compares the imageID of the named container with the candidate's
// digest, or with the digests that its image index lists: for an index the
// node reports the manifest of its own platform (A4.6). It also returns the
// imageID. A bare "sha256:…" is judged like any other: runtimes that report an
// image's configuration there prove nothing about the manifest.
func JudgeImage(pod corev1.Pod, container, candidate string, listed []string) (ImageVerdict, string) {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != container || status.ImageID == "" {
			continue
		}
		digest := status.ImageID[strings.LastIndex(status.ImageID, "@")+1:]
		if digest == candidate || slices.Contains(listed, digest) {
			return ImageProven, status.ImageID
		}
		return ImageOther, status.ImageID
	}
	return ImageUnknown, ""
}
