package evidence

import (
	"errors"

	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// Sealed is a record that carries the SHA-256 of its own canonical rest: of
// what `jq 'del(.sha256)'` prints (A1.5). It is no signature. It turns a flipped
// bit or a digit changed by hand into a refusal, where it would otherwise be
// another UID. Each says what it must hold (A1.5).
type Sealed interface {
	seal() *string
	required() []requirement
}

func (r *Started) seal() *string    { return &r.SHA256 }
func (r *Receipt) seal() *string    { return &r.SHA256 }
func (r *Child) seal() *string      { return &r.SHA256 }
func (r *Released) seal() *string   { return &r.SHA256 }
func (r *Rejected) seal() *string   { return &r.SHA256 }
func (r *Reconciled) seal() *string { return &r.SHA256 }

// Seal sets the record's sum over its present content.
func Seal(r Sealed) (err error) {
	*r.seal(), err = sumOfRest(r)
	return err
}

// CheckSeal refuses a record whose sum is not that of its rest.
func CheckSeal(r Sealed) error {
	sum, err := sumOfRest(r)
	if err == nil && *r.seal() != sum {
		err = errors.New("does not match its own SHA-256: it was changed after it was written")
	}
	return err
}

// sumOfRest sums the record without its sum, and leaves it as it was.
func sumOfRest(r Sealed) (string, error) {
	kept := *r.seal()
	*r.seal() = ""
	sum, err := strictjson.SumOf(r)
	*r.seal() = kept
	return sum, err
}
