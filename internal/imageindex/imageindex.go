// Package imageindex reads what an image index lists, from the registry that
// serves the candidate image (A4.6).
//
// Its invariant: an index is addressed by its digest and its bytes are checked
// against it, so a registry can withhold an answer and not give a wrong one. It
// reads and never writes. It must not import any other package of this
// repository: it is asked about names and answers with digests.
package imageindex

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// maxIndexBytes bounds an index; one with a hundred platforms has some thirty
// thousand bytes.
const maxIndexBytes = 4 << 20

// Listed returns the digests of the manifests that the image index name@digest
// lists, none when the digest is that of a single image. name is as a Pod has it,
// digest is sha256:…. Credentials are those of the operator's container tools
// (~/.docker/config.json); without any the registry is asked anonymously.
func Listed(ctx context.Context, name, digest string) ([]string, error) {
	repository, err := remote.NewRepository(qualified(name))
	if err != nil {
		return nil, fmt.Errorf("naming the repository of %s: %w", name, err)
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the registry credentials: %w", err)
	}
	client := &auth.Client{Credential: credentials.Credential(store)}
	client.SetUserAgent("upgrade-production-images")
	repository.Client = client
	described, reader, err := repository.Manifests().FetchReference(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("fetching the manifest of %s@%s: %w", name, digest, err)
	}
	defer func() { _ = reader.Close() }()
	if described.Size > maxIndexBytes || string(described.Digest) != digest {
		return nil, fmt.Errorf("fetching the manifest of %s@%s: the registry offers %d bytes with digest %s", name, digest, described.Size, described.Digest)
	}
	data, err := content.ReadAll(reader, described)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of %s@%s: %w", name, digest, err)
	}
	return listed(data)
}

// listed reads an OCI index or a manifest list; both have "manifests", and a
// single image's manifest has none.
func listed(data []byte) ([]string, error) {
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("decoding an image index: %w", err)
	}
	var digests []string
	for _, manifest := range index.Manifests {
		digests = append(digests, string(manifest.Digest))
	}
	return digests, nil
}

// qualified gives a short name the registry and path that every container runtime
// gives it.
func qualified(name string) string {
	first, _, found := strings.Cut(name, "/")
	switch {
	case !found:
		return "docker.io/library/" + name
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return name
	default:
		return "docker.io/" + name
	}
}
