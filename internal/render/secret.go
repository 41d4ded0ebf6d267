package render

import (
	"bytes"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// secretData holds Secret values where no formatting verb reaches them: a
// function prints as an address.
type secretData struct {
	source string
	kind   corev1.SecretType
	data   func() map[string][]byte
}

// findSecret returns what the slot "secret" copies, nil when the profile wants
// none.
func findSecret(objects []object, wanted *SecretSource) (*secretData, error) {
	if wanted == nil {
		return nil, nil
	}
	source, err := findOne(objects, "Secret", wanted.Component)
	if err != nil {
		return nil, err
	}
	secret, err := decodeSecret(source)
	if err != nil {
		return nil, err
	}
	// The token controller fills such a Secret by itself, or deletes it: what
	// is in it would not be what was planned.
	if secret.Type == corev1.SecretTypeServiceAccountToken {
		return nil, refuse("chart", "Secret %s in %s is a service-account token, of which there is no copy", source.GetName(), source.path)
	}
	values, kind := allValues(secret), secret.Type
	if len(wanted.Keys) > 0 {
		// The special types demand keys that a selection may lack.
		kind = corev1.SecretTypeOpaque
		for _, key := range wanted.Keys {
			if _, ok := values[key]; !ok {
				return nil, refuse("chart", "Secret %s in %s lacks the key %q, which the profile names", source.GetName(), source.path, key)
			}
		}
		for key := range values {
			if !slices.Contains(wanted.Keys, key) {
				delete(values, key)
			}
		}
	}
	if kind == "" {
		kind = corev1.SecretTypeOpaque
	}
	return &secretData{source: source.GetName(), kind: kind, data: func() map[string][]byte { return values }}, nil
}

// decodeSecret decodes with care for the type only: no error of it may quote.
func decodeSecret(o object) (*corev1.Secret, error) {
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, refuse("chart", "Secret %s in %s cannot be encoded", o.GetName(), o.path)
	}
	var secret corev1.Secret
	if err := json.Unmarshal(data, &secret); err != nil {
		return nil, refuse("chart", "Secret %s in %s holds data that is not base64 text", o.GetName(), o.path)
	}
	return &secret, nil
}

// allValues merges stringData over data, as the API server does.
func allValues(secret *corev1.Secret) map[string][]byte {
	values := map[string][]byte{}
	for key, value := range secret.Data {
		values[key] = value
	}
	for key, value := range secret.StringData {
		values[key] = []byte(value)
	}
	return values
}

// secretValues returns the values of every Secret that the chart renders: one
// that a preflight does not copy is a secret all the same.
func secretValues(objects []object) ([][]byte, error) {
	var values [][]byte
	for _, o := range objects {
		if o.GetKind() != "Secret" {
			continue
		}
		secret, err := decodeSecret(o)
		if err != nil {
			return nil, err
		}
		for _, value := range allValues(secret) {
			if len(value) > 0 {
				values = append(values, value)
			}
		}
	}
	slices.SortFunc(values, bytes.Compare)
	return slices.CompactFunc(values, bytes.Equal), nil
}

// shape is the SHA-256 over the keys and value lengths (A3.3): enough to see
// that another Secret is meant, too little to guess a value from.
func (s *secretData) shape() (string, error) {
	lengths := map[string]int{}
	for key, value := range s.data() {
		lengths[key] = len(value)
	}
	canonical, err := json.Marshal(lengths)
	if err != nil {
		return "", refuse("chart", "the keys of Secret %s cannot be encoded", s.source)
	}
	return strictjson.Sum(canonical), nil
}

// useCopy makes the Pod read the copy wherever it read the original. Other
// Secrets and ConfigMaps stay as the chart names them: they are the release's
// own, in the live namespace, and a preflight only reads them.
func (s *secretData) useCopy(spec *corev1.PodSpec, name string, slot identity.Slot) error {
	reference := s.referrer(name, slot)
	for _, c := range eachContainer(spec) {
		if err := useInEnvironment(c, reference); err != nil {
			return err
		}
	}
	for i := range spec.ImagePullSecrets {
		if err := reference(&spec.ImagePullSecrets[i].Name, nil); err != nil {
			return err
		}
	}
	return useInVolumes(spec.Volumes, reference)
}

// refer changes one reference to the original into one to the copy. A key that
// must be there and is not is refused: the Pod would wait for it for ever.
type refer func(from *string, optional *bool, keys ...string) error

func (s *secretData) referrer(name string, slot identity.Slot) refer {
	data := s.data()
	return func(from *string, optional *bool, keys ...string) error {
		if *from != s.source {
			return nil
		}
		for _, key := range keys {
			if _, ok := data[key]; !ok && (optional == nil || !*optional) {
				return refuse("chart", "slot %q reads the key %q of Secret %s, which the copy does not have", slot, key, s.source)
			}
		}
		*from = name
		return nil
	}
}

func useInEnvironment(c *corev1.Container, reference refer) error {
	for i := range c.EnvFrom {
		if ref := c.EnvFrom[i].SecretRef; ref != nil {
			if err := reference(&ref.Name, ref.Optional); err != nil {
				return err
			}
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.SecretKeyRef != nil {
			if err := reference(&from.SecretKeyRef.Name, from.SecretKeyRef.Optional, from.SecretKeyRef.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

func useInVolumes(volumes []corev1.Volume, reference refer) error {
	for i := range volumes {
		if secret := volumes[i].Secret; secret != nil {
			if err := reference(&secret.SecretName, secret.Optional, itemKeys(secret.Items)...); err != nil {
				return err
			}
		}
		if volumes[i].Projected == nil {
			continue
		}
		for _, source := range volumes[i].Projected.Sources {
			if secret := source.Secret; secret != nil {
				if err := reference(&secret.Name, secret.Optional, itemKeys(secret.Items)...); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func itemKeys(items []corev1.KeyToPath) []string {
	var keys []string
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys
}
