package evidence

import (
	"fmt"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// slotRecord is a sealed record of one slot.
type slotRecord interface {
	Sealed
	common() *Record
}

// requirement is a value that a record must hold: strict decoding knows that
// the field is there, not that it says something (A1.5).
type requirement struct {
	name string
	ok   bool
}

// CheckRequired reports the first value that a record lacks, as a clause. The
// journal asks before it writes.
func CheckRequired(r Sealed) error {
	for _, value := range r.required() {
		if !value.ok {
			return fmt.Errorf("has no valid %s", value.name)
		}
	}
	return nil
}

func (r *Record) common() *Record { return r }

func (r *Started) required() []requirement {
	return []requirement{{"time", ValidTime(r.Time)}, {"auditID", ValidAuditID(r.AuditID)}}
}

func (r *Receipt) required() []requirement {
	return []requirement{
		{"uid", identity.ValidUID(r.UID)},
		{"creationTimestamp", ValidTime(r.CreationTimestamp)},
	}
}

func (r *Child) required() []requirement {
	return []requirement{
		{"name", objectName.MatchString(r.Name)},
		{"uid", identity.ValidUID(r.UID)},
		{"ownerUID", identity.ValidUID(r.OwnerUID)},
	}
}

func (r *Released) required() []requirement {
	return []requirement{{"uid", identity.ValidUID(r.UID)}, {"time", ValidTime(r.Time)}}
}

func (r *Rejected) required() []requirement {
	return []requirement{
		{"auditID", ValidAuditID(r.AuditID)},
		{"code", definiteRefusal(r.Code, r.NotSent)},
		{"reason", len(r.Reason) <= MaxReasonBytes},
		{"time", ValidTime(r.Time)},
	}
}

func (r *Reconciled) required() []requirement {
	return []requirement{
		{"markerSHA256", validSum(r.MarkerSHA256)},
		{"statement", ValidStatement(r.Statement)},
		{"time", ValidTime(r.Time)},
	}
}

// definiteRefusal reports whether an answer of this code, or none because the
// request was not sent, proves that a create had no effect (A3.7).
func definiteRefusal(code int, notSent bool) bool {
	if notSent {
		return code == 0
	}
	return slices.Contains([]int{400, 401, 403, 404, 405, 406, 413, 415, 422, 429}, code)
}

// ValidStatement reports whether s can be a release owner's statement: text of
// at most MaxStatementBytes bytes without control characters.
func ValidStatement(s string) bool {
	if s == "" || len(s) > MaxStatementBytes || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

var auditIDPattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// ValidAuditID reports whether s can be sent as an Audit-ID and come back
// whole: the API server cuts what is longer.
func ValidAuditID(s string) bool { return auditIDPattern.MatchString(s) }
