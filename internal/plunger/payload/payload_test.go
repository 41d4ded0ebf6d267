package payload_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/plunger/payload"
)

// A release as Helm stores it, with fields that the linked Helm does not know,
// at three depths, and numbers that a float64 would change.
const stored = `{"name":"app","info":{"first_deployed":"2026-01-01T00:00:00Z","last_deployed":"2026-01-01T00:00:00Z","deleted":"",` +
	`"description":"Install complete","status":"uninstalling","future":{"in":"info"}},"chart":{"metadata":{"name":"c","version":"1.0.0","apiVersion":"v2"},` +
	`"lock":null,"templates":[{"name":"t","data":"e30="}],"values":{},"schema":null,"files":null,"future":[1,2]},"config":{"big":12345678901234567890,"float":1.0},` +
	`"manifest":"---\n<&>\n","version":3,"namespace":"ns","future":"top"}`

func packed(t testing.TB, text string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(buffer.Bytes()))
}

func unpacked(t *testing.T, content []byte) map[string]json.RawMessage {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(string(content))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	return whole
}

// B10.1, B10.3: the status changes and nothing else does, known to Helm or not.
func TestOnlyTheStatusChanges(t *testing.T) {
	content := packed(t, stored)
	if status, err := payload.Status(content); err != nil || status != "uninstalling" {
		t.Fatalf("status %q, %v", status, err)
	}
	rewritten, err := payload.WithStatus(content, "failed")
	if err != nil {
		t.Fatal(err)
	}
	if status, err := payload.Status(rewritten); err != nil || status != "failed" {
		t.Errorf("status %q, %v", status, err)
	}
	before, after := unpacked(t, content), unpacked(t, rewritten)
	if len(before) != len(after) {
		t.Errorf("%d members, %d before", len(after), len(before))
	}
	for key, value := range before {
		want := string(value)
		if key == "info" {
			want = strings.Replace(want, "uninstalling", "failed", 1)
		}
		if !equivalent(t, want, string(after[key])) {
			t.Errorf("%s changed: %s, before %s", key, after[key], value)
		}
	}
	if !bytes.Contains(after["config"], []byte("12345678901234567890")) || !bytes.Contains(after["config"], []byte("1.0")) {
		t.Errorf("the text of numbers changed: %s", after["config"])
	}
}

// equivalent compares two JSON texts member by member, numbers by their text.
func equivalent(t *testing.T, a, b string) bool {
	t.Helper()
	parse := func(text string) string {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		canonical, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return string(canonical)
	}
	return parse(a) == parse(b)
}

// B10.3: what Helm cannot decode is not written, and nothing of it is quoted.
func TestUndecodableIsRefusedWithoutQuotingIt(t *testing.T) {
	const canary = "s3cr3t-canary"
	for name, content := range map[string][]byte{
		"empty":           nil,
		"no base64":       []byte(canary),
		"no gzip":         []byte(base64.StdEncoding.EncodeToString([]byte("\x1f\x8b\x08" + canary))),
		"no JSON":         packed(t, canary),
		"another shape":   packed(t, `["`+canary+`"]`),
		"no info":         packed(t, `{"name":"`+canary+`"}`),
		"status a number": packed(t, `{"name":"`+canary+`","info":{"status":3}}`),
		"cut":             packed(t, stored)[:200],
	} {
		t.Run("B10.3 "+name, func(t *testing.T) {
			_, first := payload.Status(content)
			_, second := payload.WithStatus(content, "failed")
			for _, err := range []error{first, second} {
				if err == nil {
					t.Fatal("accepted")
				}
				if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "s3cr3t") {
					t.Errorf("the error quotes the payload: %v", err)
				}
			}
		})
	}
}

// B10.3: a few hundred kilobytes in a Secret can be hundreds of megabytes unpacked, and
// thousands of times the decoded values. They are refused before Helm's decoder, which
// knows no bound, makes them.
func TestBombIsNotUnpacked(t *testing.T) {
	for name, text := range map[string]string{
		"text":   stored + strings.Repeat(" ", 256<<20),
		"values": strings.Replace(stored, "1.0}", "["+strings.Repeat(`{"":0},`, 70_000)+"0]}", 1),
	} {
		t.Run("B10.3 "+name, func(t *testing.T) {
			content := packed(t, text)
			if len(content) > 512<<10 {
				t.Fatalf("%d bytes fit in no Secret", len(content))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, first := payload.Status(content)
			_, second := payload.WithStatus(content, "failed")
			runtime.ReadMemStats(&after)
			for _, err := range []error{first, second} {
				if err == nil || !strings.Contains(err.Error(), "larger than") {
					t.Errorf("it is refused with %v", err)
				}
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 256 {
				t.Errorf("%d MiB were allocated to refuse it twice", made)
			}
		})
	}
}

// B10.3: what is large and no bomb is a release all the same: only bytes outside of
// words count as values.
func TestLargeTextIsNoBomb(t *testing.T) {
	text := strings.Replace(stored, "Install complete", strings.Repeat(`[{,:\\\"`, 100_000), 1)
	if _, err := payload.WithStatus(packed(t, text), "failed"); err != nil {
		t.Error(err)
	}
}

// B10.3: records of before Helm compressed them are plain JSON in base64.
func TestUncompressedRecord(t *testing.T) {
	rewritten, err := payload.WithStatus([]byte(base64.StdEncoding.EncodeToString([]byte(stored))), "failed")
	if err != nil {
		t.Fatal(err)
	}
	if status, err := payload.Status(rewritten); err != nil || status != "failed" {
		t.Errorf("status %q, %v", status, err)
	}
}

// B10: a payload near the bound of a Secret does not grow past it.
func TestLargePayloadDoesNotGrow(t *testing.T) {
	noise := make([]byte, 500<<10)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(stored, "Install complete", base64.StdEncoding.EncodeToString(noise), 1)
	content := packed(t, text)
	rewritten, err := payload.WithStatus(content, "failed")
	if err != nil {
		t.Fatal(err)
	}
	if len(rewritten) > len(content)+len(content)/100 {
		t.Errorf("%d bytes became %d", len(content), len(rewritten))
	}
}

// Whatever decodes keeps its meaning; whatever does not is refused, without a
// panic.
func FuzzWithStatus(f *testing.F) {
	f.Add([]byte(stored))
	f.Add([]byte(`{"info":{"status":"uninstalling"}}`))
	f.Add([]byte(`{"info":{"status":"unknown","status":"deployed"},"info":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		content := []byte(base64.StdEncoding.EncodeToString(text))
		rewritten, err := payload.WithStatus(content, "failed")
		if err != nil {
			return
		}
		if status, err := payload.Status(rewritten); err != nil || status != "failed" {
			t.Errorf("status %q, %v", status, err)
		}
	})
}

// B10.3, B10.4: bytes that no Helm ever stored are refused without a panic, and
// without quoting any of them.
func FuzzStatus(f *testing.F) {
	f.Add(packed(f, stored))
	f.Add([]byte(base64.StdEncoding.EncodeToString([]byte("\x1f\x8b\x08planted"))))
	f.Add([]byte("planted"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		status, err := payload.Status(content)
		if err != nil && (status != "" || strings.Contains(err.Error(), "planted")) {
			t.Fatalf("%q and %v", status, err)
		}
		if rewritten, err := payload.WithStatus(content, "failed"); err == nil {
			if status, err := payload.Status(rewritten); err != nil || status != "failed" {
				t.Errorf("status %q, %v", status, err)
			}
		}
	})
}
