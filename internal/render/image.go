package render

import (
	"regexp"
	"strings"
)

// imageName and imageDigest are the grammar of the distribution specification,
// without a tag: a tag beside a digest says something that nothing checks.
var (
	imageName   = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]{1,5})?/)?[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	imageDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	imageTag    = regexp.MustCompile(`:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
)

// Image is an immutable reference: a name and the digest of what it means.
type Image struct {
	Name   string
	Digest string
}

// String returns NAME@sha256:….
func (i Image) String() string { return i.Name + "@" + i.Digest }

// ParseImage takes NAME@sha256:<64 hex> and nothing else (A4.2).
func ParseImage(reference string) (Image, error) {
	name, digest, found := strings.Cut(reference, "@")
	switch {
	case !found:
		return Image{}, refuse("image", "%q can change its meaning: give it as NAME@sha256:<digest>", reference)
	case !imageDigest.MatchString(digest):
		return Image{}, refuse("image", "%q has no sha256 digest of 64 lower-case hex digits after the @", reference)
	case imageTagged(name):
		return Image{}, refuse("image", "%q has a tag beside its digest: give it as NAME@sha256:<digest>", reference)
	case len(name) > 255 || !imageName.MatchString(name):
		return Image{}, refuse("image", "%q has no valid name before the @", reference)
	}
	return Image{Name: name, Digest: digest}, nil
}

// imageTagged tells a tag from a registry's port: a port has a path after it.
func imageTagged(name string) bool { return imageTag.MatchString(name) }

// parseRendered reads an image as charts write it, where a tag may stand
// between name and digest; the digest alone decides what runs, so the tag is
// dropped.
func parseRendered(reference string) (Image, error) {
	name, digest, found := strings.Cut(reference, "@")
	if found {
		name = imageTag.ReplaceAllString(name, "")
		reference = name + "@" + digest
	}
	return ParseImage(reference)
}

// set writes the image into the values at the profile's path. What else stands
// there stays, so that a pull policy beside the repository survives. The tag is
// emptied: the old one beside the new digest would name a version that is not
// the candidate's.
func (s ImageSource) set(values map[string]any, image Image) error {
	keys := strings.Split(s.Values, ".")
	at := values
	last := len(keys) - 1
	for _, key := range keys[:last] {
		next, err := table(at, key, s.Values)
		if err != nil {
			return err
		}
		at = next
	}
	if s.Form == ImageReference {
		at[keys[last]] = image.String()
		return nil
	}
	split, err := table(at, keys[last], s.Values)
	if err != nil {
		return err
	}
	split["repository"], split["digest"], split["tag"] = image.Name, image.Digest, ""
	return nil
}

// table returns the map under key, made when it is missing or null.
func table(at map[string]any, key, path string) (map[string]any, error) {
	switch next := at[key].(type) {
	case nil:
		made := map[string]any{}
		at[key] = made
		return made, nil
	case map[string]any:
		return next, nil
	default:
		return nil, refuse("values", "%q on the way to the image path %q is not a map", key, path)
	}
}
