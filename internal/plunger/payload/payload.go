// Package payload reads and rewrites the status inside the content of a Helm
// storage Secret: base64 of gzip of JSON, info.status.
//
// Its invariant: what Helm's own storage code cannot decode is never written,
// and what is written differs from what was read in info.status and in nothing
// else (B10.3). Helm's encoder alone could not promise that, because it knows
// only the fields of its own version; so Helm's code judges, before and after,
// and only the one value is replaced in between.
//
// It must not import internal/kube: it works on bytes. Nothing of a payload may
// appear in an error.
package payload

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Key is the name of the value in the Secret.
const Key = "release"

// A Secret holds at most 1 MiB of base64, and text of charts shrinks to a tenth. Whoever
// may write a Secret could otherwise store a kilobyte for each megabyte that is unpacked,
// and two bytes for each empty object that is decoded to hundreds.
const (
	maxJSON   = 16 << 20
	maxValues = 200_000
)

// The errors say what is wrong without quoting any of it.
var (
	errEncoding = errors.New("it is not base64 of gzip of JSON")
	errLarge    = fmt.Errorf("unpacked it is larger than %d MiB or has more than %d values, which no release has", maxJSON>>20, maxValues)
	errHelm     = errors.New("the storage code of Helm cannot decode it")
	errChanged  = errors.New("rewriting it would change more than its status")
)

// Status returns info.status as Helm's own storage code decodes it.
func Status(content []byte) (string, error) {
	decoded, err := decode(content)
	if err != nil {
		return "", err
	}
	return decoded.Info.Status.String(), nil
}

// WithStatus returns the content with info.status replaced. Unknown fields, the
// order of lists and the text of numbers stay as they are.
func WithStatus(content []byte, status string) ([]byte, error) {
	before, err := decode(content)
	if err != nil {
		return nil, err
	}
	before.Info.Status = common.Status(status)
	want, err := digest(before)
	if err != nil {
		return nil, err
	}
	text, err := unpack(content)
	if err != nil {
		return nil, err
	}
	text, err = replaceStatus(text, status)
	if err != nil {
		return nil, err
	}
	rewritten, err := pack(text)
	if err != nil {
		return nil, err
	}
	after, err := decode(rewritten)
	if err != nil {
		return nil, err
	}
	got, err := digest(after)
	if err != nil {
		return nil, err
	}
	if got != want {
		return nil, errChanged
	}
	return rewritten, nil
}

// digest is of the release as Helm would store it. Two of them are compared instead of
// two releases, so that only one is in memory.
func digest(r *release.Release) (sum [sha256.Size]byte, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return sum, errHelm
	}
	return sha256.Sum256(text), nil
}

// replaceStatus changes the one value in the two objects around it and keeps
// every other member as raw text.
func replaceStatus(text []byte, status string) ([]byte, error) {
	var whole, info map[string]json.RawMessage
	if json.Unmarshal(text, &whole) != nil || json.Unmarshal(whole["info"], &info) != nil || info == nil {
		return nil, errEncoding
	}
	var err error
	if info["status"], err = json.Marshal(status); err != nil {
		return nil, errEncoding
	}
	if whole["info"], err = json.Marshal(info); err != nil {
		return nil, errEncoding
	}
	if text, err = json.Marshal(whole); err != nil {
		return nil, errEncoding
	}
	return text, nil
}

// decode lets Helm's Secret driver read the content, exactly as helm-controller
// will: the driver's codec is not exported, but the driver takes any client. It knows
// no bound, so the size is looked at first.
func decode(content []byte) (*release.Release, error) {
	if _, err := unpack(content); err != nil {
		return nil, err
	}
	stored := driver.NewSecrets(oneSecret{content: content})
	got, err := stored.Get(Key)
	if err != nil {
		return nil, errHelm
	}
	decoded, ok := got.(*release.Release)
	if !ok || decoded == nil || decoded.Info == nil {
		return nil, errHelm
	}
	return decoded, nil
}

// oneSecret is a client that holds one Secret in memory and can only be read.
type oneSecret struct {
	typed.SecretInterface
	content []byte
}

// Get returns the one Secret, whatever the name.
func (s oneSecret) Get(context.Context, string, metav1.GetOptions) (*corev1.Secret, error) {
	return &corev1.Secret{Data: map[string][]byte{Key: s.content}}, nil
}

// unpack undoes base64 and gzip, within the bounds.
func unpack(content []byte) ([]byte, error) {
	text, err := decompress(content)
	if err != nil {
		return nil, err
	}
	if len(text) > maxJSON || values(text) > maxValues {
		return nil, errLarge
	}
	return text, nil
}

// values counts the bytes of a JSON text, its words left out, that a value can follow;
// so it is never less than the number of values but the first.
func values(text []byte) (n int) {
	word := false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case word && b == '\\':
			i++ // what it escapes may be a quotation mark
		case b == '"':
			word = !word
		case !word && (b == ',' || b == ':' || b == '[' || b == '{'):
			n++
		}
	}
	return n
}

// decompress undoes base64 and gzip, and ends one byte after the bound. Records from
// before Helm compressed them are plain JSON, as in Helm's own decoder.
func decompress(content []byte) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(string(content))
	if err != nil {
		return nil, errEncoding
	}
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b, 0x08}) {
		return raw, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, errEncoding
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxJSON+1))
	if err != nil {
		return nil, errEncoding
	}
	return text, nil
}

// pack compresses as Helm does, at its level: a payload near the limit of a
// Secret must not grow.
func pack(text []byte) ([]byte, error) {
	var buffer bytes.Buffer
	writer, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compressing a payload: %w", err)
	}
	if _, err := writer.Write(text); err != nil {
		return nil, fmt.Errorf("compressing a payload: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("compressing a payload: %w", err)
	}
	return []byte(base64.StdEncoding.EncodeToString(buffer.Bytes())), nil
}
