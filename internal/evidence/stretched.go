package evidence

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
)

// Stretched binds a private file without giving away what it holds. Of a file whose
// template is known and whose one password is short, a plain digest would let whoever
// reads the evidence try passwords by the million a second (A3.3); each try at this
// one costs what PBKDF2 costs, and the salt is no other file's.
type Stretched struct {
	Name       string `json:"name"`
	Salt       string `json:"salt"`
	Iterations int    `json:"iterations"`
	PBKDF2     string `json:"pbkdf2SHA256"`
}

// StretchIterations is what is recommended for PBKDF2 with SHA-256; a run waits for it
// once, for some tenths of a second.
const StretchIterations = 600_000

// maxIterations bounds what a record can make a resume compute.
const maxIterations = 100 * StretchIterations

// saltPattern is 128 random bits.
var saltPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Stretch makes the record of a file; salt is 32 random digits of lower-case hex.
func Stretch(name string, data []byte, salt string, iterations int) (Stretched, error) {
	var key []byte
	raw, err := hex.DecodeString(salt)
	if err == nil {
		key, err = pbkdf2.Key(sha256.New, string(data), raw, iterations, sha256.Size)
	}
	if err != nil {
		return Stretched{}, fmt.Errorf("digesting %s: %w", name, err)
	}
	return Stretched{Name: name, Salt: salt, Iterations: iterations, PBKDF2: hex.EncodeToString(key)}, nil
}

// Matches reports whether the record was made of data.
func (s Stretched) Matches(data []byte) (bool, error) {
	again, err := Stretch(s.Name, data, s.Salt, s.Iterations)
	return again == s, err
}

func (s Stretched) valid() bool {
	return saltPattern.MatchString(s.Salt) && s.Iterations > 0 && s.Iterations <= maxIterations && validSum(s.PBKDF2)
}
