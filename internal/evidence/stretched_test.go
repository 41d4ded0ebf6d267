package evidence

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// A3.3: what binds a private file follows its bytes and its salt, and is not what
// anybody computes without that. The known answer is that of RFC 7914.
func TestA3_3_Stretched(t *testing.T) {
	salt := strings.Repeat("0a", 16)
	stretch := func(data, salt string, iterations int) Stretched {
		s, err := Stretch("values.yaml", []byte(data), salt, iterations)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	base := stretch("password: hunter2", salt, 2)
	for name, other := range map[string]Stretched{
		"other bytes":     stretch("password: hunter3", salt, 2),
		"another salt":    stretch("password: hunter2", strings.Repeat("0b", 16), 2),
		"another count":   stretch("password: hunter2", salt, 3),
		"another in part": {PBKDF2: strings.Repeat("0", 64)},
	} {
		if other.PBKDF2 == base.PBKDF2 {
			t.Errorf("%s: the same digest", name)
		}
	}
	for data, want := range map[string]bool{"password: hunter2": true, "password: hunter3": false, "": false} {
		if same, err := base.Matches([]byte(data)); same != want || err != nil {
			t.Errorf("%q matches: %v, %v", data, same, err)
		}
	}
	const known = "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"
	if got := stretch("passwd", "73616c74", 1).PBKDF2; got != known {
		t.Errorf("RFC 7914: %s", got)
	}
	if want := (Stretched{Name: "values.yaml", Salt: salt, Iterations: 2, PBKDF2: base.PBKDF2}); base != want {
		t.Errorf("recorded %+v, want %+v", base, want)
	}
	var odd hex.InvalidByteError
	if made, err := Stretch("values.yaml", nil, "no hex", 1); !errors.As(err, &odd) || !strings.HasPrefix(err.Error(), "digesting values.yaml: ") || made != (Stretched{}) {
		t.Errorf("a salt that is no hex: %+v, %v", made, err)
	}
	// What OWASP's Password Storage Cheat Sheet recommends.
	if StretchIterations != 600_000 {
		t.Errorf("%d iterations are recorded", StretchIterations)
	}
}

// A1.5: an incomplete record is refused, and so is one whose comparison would not end.
func TestA1_5_StretchedIsWhole(t *testing.T) {
	good := Stretched{Name: "values.yaml", Salt: strings.Repeat("0a", 16), Iterations: StretchIterations, PBKDF2: strings.Repeat("0", 64)}
	for _, iterations := range []int{1, StretchIterations, 60_000_000} {
		if good.Iterations = iterations; !good.valid() {
			t.Errorf("%d iterations are refused", iterations)
		}
	}
	for name, change := range map[string]func(*Stretched){
		"no salt":             func(s *Stretched) { s.Salt = "" },
		"a short salt":        func(s *Stretched) { s.Salt = s.Salt[2:] },
		"no iterations":       func(s *Stretched) { s.Iterations = 0 },
		"too many iterations": func(s *Stretched) { s.Iterations = 60_000_001 },
		"no digest":           func(s *Stretched) { s.PBKDF2 = "" },
	} {
		bad := good
		change(&bad)
		if bad.valid() {
			t.Errorf("%s is accepted", name)
		}
	}
}
