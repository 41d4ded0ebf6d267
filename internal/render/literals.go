package render

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/redact"
)

// minEmbedded is the shortest Secret value that is looked for inside a longer
// literal. A shorter one is a word or a port that many literals contain.
const minEmbedded = 8

// checkLiterals refuses a Pod that carries a Secret value in plain text (A6.8):
// the manifest is written to disk, and so would the value be (A3.3). Beyond an
// equal environment literal or word of a command it looks into everything else
// that holds free text. Names and references are not looked at: a user name that
// is the release's name too would refuse every plan.
func checkLiterals(template *corev1.PodTemplateSpec, slot identity.Slot, secrets [][]byte) error {
	for _, c := range eachContainer(&template.Spec) {
		for _, env := range c.Env {
			if isSecret(env.Value, secrets) || holdsSecret(env.Value, secrets) {
				return refuse("chart", "environment variable %q in container %q of slot %q holds a Secret's value as a literal; let it come from the Secret", env.Name, c.Name, slot)
			}
		}
		for _, word := range slices.Concat(c.Command, c.Args) {
			if isSecret(word, secrets) || holdsSecret(word, secrets) {
				return refuse("chart", "the command of container %q in slot %q holds a Secret's value; let it come from the Secret", c.Name, slot)
			}
		}
	}
	for _, text := range otherTexts(template) {
		if holdsSecret(text.value, secrets) {
			return refuse("chart", "%s of slot %q holds a Secret's value; let it come from the Secret", text.where, slot)
		}
	}
	return nil
}

// literal is free text of a Pod template that is kept.
type literal struct{ where, value string }

// otherTexts are the annotations, which agents read and charts fill at will, what
// the one kept sort of probe sends, and what a CSI driver is told. They are in
// the order of the template, or by key.
func otherTexts(template *corev1.PodTemplateSpec) (texts []literal) {
	for key, value := range template.Annotations {
		texts = append(texts, literal{fmt.Sprintf("annotation %q of the Pod template", key), value})
	}
	for _, volume := range template.Spec.Volumes {
		if volume.CSI == nil {
			continue
		}
		for key, value := range volume.CSI.VolumeAttributes {
			texts = append(texts, literal{fmt.Sprintf("attribute %q of volume %q", key, volume.Name), value})
		}
	}
	slices.SortFunc(texts, func(a, b literal) int { return strings.Compare(a.where, b.where) })
	for _, c := range eachContainer(&template.Spec) {
		for _, value := range probeTexts(c.StartupProbe) {
			texts = append(texts, literal{fmt.Sprintf("the startup probe of container %q", c.Name), value})
		}
	}
	return texts
}

func probeTexts(probe *corev1.Probe) (texts []string) {
	if probe == nil {
		return nil
	}
	if probe.Exec != nil {
		texts = append(texts, probe.Exec.Command...)
	}
	if probe.HTTPGet != nil {
		texts = append(texts, probe.HTTPGet.Path)
		for _, header := range probe.HTTPGet.HTTPHeaders {
			texts = append(texts, header.Value)
		}
	}
	return texts
}

// isSecret: the literal is a Secret's value, however short.
func isSecret(literal string, secrets [][]byte) bool {
	return slices.ContainsFunc(secrets, func(value []byte) bool { return literal == string(value) })
}

// holdsSecret: a Secret's value stands in the literal, in any way in which a template
// writes one into another text, or a short one as the password of a URL.
func holdsSecret(literal string, secrets [][]byte) bool {
	return slices.ContainsFunc(secrets, func(value []byte) bool {
		if len(value) < minEmbedded {
			return isPassword(literal, value)
		}
		// One of a file often ends with a line break that a template trims.
		trimmed := bytes.TrimSpace(value)
		return holds(literal, value) || len(trimmed) >= minEmbedded && holds(literal, trimmed)
	})
}

func holds(literal string, value []byte) bool {
	// No way to write it is shorter than the value itself.
	return len(value) <= len(literal) &&
		slices.ContainsFunc(redact.Encodings(value), func(form []byte) bool { return strings.Contains(literal, string(form)) })
}

// isPassword: the password of a URL in the literal is the value. It is the whole
// password, since a short value stands in many a longer word by chance.
func isPassword(literal string, value []byte) bool {
	return strings.Contains(literal, "://") && slices.ContainsFunc(redact.Encodings(value), func(form []byte) bool {
		// A literal is text, so bytes that are none cannot stand in it; and a pattern of
		// them would not compile, and be printed.
		return utf8.Valid(form) && regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@]*:`+regexp.QuoteMeta(string(form))+"@").MatchString(literal)
	})
}
