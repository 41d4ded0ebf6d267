package strictjson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/strictjson"
)

type inner struct {
	Count int               `json:"count"`
	Tags  map[string]string `json:"tags"`
}

type record struct {
	Name   string          `json:"name"`
	Inner  inner           `json:"inner"`
	List   []inner         `json:"list"`
	Raw    json.RawMessage `json:"raw,omitempty"`
	SHA256 string          `json:"sha256,omitempty"`
}

const sample = `{
  "name": "a<b> & c",
  "inner": {
    "count": 7,
    "tags": {
      "x": "1",
      "y": "2"
    }
  },
  "list": [],
  "raw": {
    "k": [
      1,
      {
        "z": null
      }
    ]
  }
}
`

func TestA1_5_DecodeAcceptsTheCanonicalForm(t *testing.T) {
	var r record
	if err := strictjson.Decode([]byte(sample), 1<<10, &r); err != nil {
		t.Fatal(err)
	}
	if r.Name != "a<b> & c" || r.Inner.Count != 7 {
		t.Fatalf("decoded %+v", r)
	}
}

func TestA1_5_DecodeRefuses(t *testing.T) {
	edit := func(old, new string) string {
		if !strings.Contains(sample, old) {
			t.Fatalf("the sample has no %q", old)
		}
		return strings.Replace(sample, old, new, 1)
	}
	for _, test := range []struct{ name, data, want string }{
		{"unknown field", edit(`"list": []`, `"list": [],`+"\n"+`  "extra": 1`), `unknown field "extra"`},
		{"unknown nested field", edit(`"count": 7`, `"kount": 7`), `unknown field "kount"`},
		{"duplicate key", edit(`"list": []`, `"list": [],`+"\n"+`  "list": []`), `key "list" twice`},
		{"duplicate nested key", edit(`"y": "2"`, `"x": "2"`), `key "x" twice`},
		{"duplicate key in a foreign object", edit(`"z": null`, `"z": null, "z": 1`), `key "z" twice`},
		{"duplicate key by escape", edit(`"y": "2"`, `"\u0078": "2"`), `key "x" twice`},
		{"trailing object", sample + "{}", "bytes after its object"},
		{"trailing byte", sample + "\x00", "bytes after its object"},
		{"trailing newline", sample + "\n", "canonical form"},
		{"no final newline", strings.TrimSuffix(sample, "\n"), "canonical form"},
		{"wrong type", edit(`"count": 7`, `"count": "7"`), `field "count"`},
		{"fraction", edit(`"count": 7`, `"count": 7.0`), `field "count"`},
		{"null for a string", edit(`"a<b> & c"`, `null`), "canonical form"},
		{"missing field", edit(`  "list": [],`+"\n", ``), "canonical form"},
		{"other case", edit(`"name"`, `"Name"`), "canonical form"},
		{"needless escape", edit(`a<b>`, `\u0061<b>`), "canonical form"},
		{"lone surrogate", edit(`a<b>`, `\ud800`), "canonical form"},
		{"other order", edit("\"x\": \"1\",\n      \"y\": \"2\"", "\"y\": \"2\",\n      \"x\": \"1\""), "canonical form"},
		{"spacing", edit(`"list": []`, `"list":[]`), "canonical form"},
		{"invalid UTF-8", edit(`a<b>`, "\xff"), "not valid UTF-8"},
		{"a list", "[]\n", "not one JSON object"},
		{"a string", "\"x\"\n", "not one JSON object"},
		{"empty", "", "not complete JSON"},
		{"cut off", sample[:len(sample)/2], "not complete JSON"},
		{"too large", sample + strings.Repeat(" ", 1<<10), "larger than 1024 bytes"},
		{"too deep", `{"raw": ` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + "}\n", "nested deeper"},
		{"byte order mark", "\ufeff" + sample, "not complete JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r record
			err := strictjson.Decode([]byte(test.data), 1<<10, &r)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// A5.4: a manifest inside a plan has one spelling too.
func TestA5_4_CanonicalRefusesOtherSpellings(t *testing.T) {
	if err := strictjson.Canonical(json.RawMessage("{\n \"a\": 1, \"b\": [\"<\"] }")); err != nil {
		t.Errorf("white space alone: %v", err)
	}
	for _, raw := range []string{`{"b":1,"a":1}`, `{"a":"\u0061"}`, `[1]`, `null x`, ``, `{"a":"\ud800"}`} {
		if strictjson.Canonical(json.RawMessage(raw)) == nil {
			t.Errorf("%s was accepted", raw)
		}
	}
}

// FuzzDecode proves A1.5: whatever parses re-encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"name":"\u0000","inner":{"count":1e1}}`))
	f.Add([]byte(strings.Repeat(`{"raw":`, 70)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r record
		if strictjson.Decode(data, 1<<16, &r) != nil {
			return
		}
		again, err := strictjson.Encode(r)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%q was read, and written as %q (%v)", data, again, err)
		}
	})
}
