package render

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInputsThatAreRefused(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*Inputs)
		want string
	}{
		"A4.2: no profile":                     {func(in *Inputs) { in.Profile = nil }, "using the profile: there is none"},
		"A4.2: no release":                     {func(in *Inputs) { in.Release = "" }, "using the release"},
		"A4.2: a release with capitals":        {func(in *Inputs) { in.Release = "Demo" }, `"Demo" is not a Helm release name`},
		"A4.2: a release of 54 characters":     {func(in *Inputs) { in.Release = strings.Repeat("a", 54) }, "at most 53"},
		"A4.2: a namespace with a dot":         {func(in *Inputs) { in.Namespace = "a.b" }, "using the namespace"},
		"A3.3: a nonce of 64 bits":             {func(in *Inputs) { in.Nonce = testNonce[:16] }, "using the nonce"},
		"A3.3: a nonce in capitals":            {func(in *Inputs) { in.Nonce = strings.ToUpper(testNonce) }, "using the nonce"},
		"A4.4: no deadline":                    {func(in *Inputs) { in.Deadline = 0 }, "using the timeout"},
		"A4.4: half a second":                  {func(in *Inputs) { in.Deadline = time.Second / 2 }, "less than one second"},
		"A4.2: no chart":                       {func(in *Inputs) { in.Chart = filepath.Join(t.TempDir(), "absent") }, "using the chart: loading"},
		"A4.2: a file that is no chart":        {func(in *Inputs) { in.Chart = "../../examples/values.yaml" }, "using the chart: loading"},
		"A4.2: a FIFO, which never answers":    {func(in *Inputs) { in.Chart = fifo(t) }, "neither a directory nor a regular file"},
		"A4.2: a directory without Chart.yaml": {func(in *Inputs) { in.Chart = t.TempDir() }, "Chart.yaml file is missing"},
		"A4.4: no cluster version":             {func(in *Inputs) { in.Capabilities.KubeVersion = "" }, "is not a Kubernetes version"},
		"A4.4: no served versions":             {func(in *Inputs) { in.Capabilities.APIVersions = nil }, "list of served API versions is empty"},
		"A4.4: an old cluster":                 {func(in *Inputs) { in.Capabilities.KubeVersion = "v1.20.0" }, "needs Kubernetes >=1.29.0-0, the cluster is v1.20.0"},
		"A4.2: values without what is needed":  {func(in *Inputs) { in.Values = nil }, "credentials.databaseURL must be set"},
		"A4.4: a value in the image's way":     {func(in *Inputs) { in.Values = []byte("image: text") }, `"image" on the way to the image path "image" is not a map`},
	} {
		t.Run(name, func(t *testing.T) {
			in := example(t)
			row.edit(&in)
			wantRefusal(t, in, row.want)
		})
	}
}

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chart.tgz")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestChartsThatAreRefused(t *testing.T) {
	for name, row := range map[string]struct{ metadata, want string }{
		"A4.2: a library":                {"type: library", "library chart"},
		"A4.2: a dependency is not here": {"dependencies: [{name: db, version: 1.0.0, repository: 'https://example.com'}]", `lacks its dependency "db"`},
	} {
		t.Run(name, func(t *testing.T) {
			in := smallInputs(t, "", smallSecret, smallDeployment)
			write(t, filepath.Join(in.Chart, "Chart.yaml"), "apiVersion: v2\nname: small\nversion: 1.2.3\n"+row.metadata+"\n")
			wantRefusal(t, in, row.want)
		})
	}
}

// A4.2: a subchart is rendered, and its files are in the digest even where the
// values switch it off.
func TestSubcharts(t *testing.T) {
	in := smallInputs(t, "", smallSecret, smallDeployment)
	write(t, filepath.Join(in.Chart, "Chart.yaml"), "apiVersion: v2\nname: small\nversion: 1.2.3\ndependencies: [{name: db, version: 1.0.0, condition: db.enabled}]\n")
	write(t, filepath.Join(in.Chart, "charts/db/Chart.yaml"), "apiVersion: v2\nname: db\nversion: 1.0.0\n")
	write(t, filepath.Join(in.Chart, "charts/db/templates/s.yaml"), "apiVersion: v1\nkind: Service\nmetadata: {name: db}\n")
	digests := map[string]bool{}
	for _, enabled := range []bool{true, false} {
		in.Values = fmt.Appendf(nil, "db: {enabled: %v}", enabled)
		rendered, err := Render(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		digests[rendered.Chart.SHA256] = true
		if got := len(rendered.Objects) == 2; got != enabled {
			t.Errorf("enabled %v renders %d objects", enabled, len(rendered.Objects))
		}
	}
	write(t, filepath.Join(in.Chart, "charts/db/templates/s.yaml"), "# changed\n")
	rendered, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	digests[rendered.Chart.SHA256] = true
	if len(digests) != 2 {
		t.Errorf("there are %d digests, want one before and one after the change", len(digests))
	}
}

// A3.3, A6.8: Helm logs values that do not fit together, and a values file is
// private. The first half is the control: should Helm stop it, Quiet can go.
func TestQuiet(t *testing.T) {
	in := smallInputs(t, "", smallSecret, smallDeployment)
	write(t, filepath.Join(in.Chart, "Chart.yaml"), "apiVersion: v2\nname: small\nversion: 1.2.3\ndependencies: [{name: db, version: 1.0.0}]\n")
	write(t, filepath.Join(in.Chart, "charts/db/Chart.yaml"), "apiVersion: v2\nname: db\nversion: 1.0.0\n")
	write(t, filepath.Join(in.Chart, "charts/db/templates/s.yaml"), "apiVersion: v1\nkind: Service\nmetadata: {name: db}\n")
	in.Values = []byte("global: {db: {login: {user: u}}}\ndb: {global: {db: {login: hunter2-canary}}}")

	var logged bytes.Buffer
	structured := slog.Default()
	t.Cleanup(func() { slog.SetDefault(structured); log.SetOutput(os.Stderr) })
	log.SetOutput(&logged)
	for _, quiet := range []bool{false, true} {
		logged.Reset()
		if quiet {
			Quiet()
		}
		if _, err := Render(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if leaks := strings.Contains(logged.String(), "hunter2-canary"); leaks == quiet {
			t.Errorf("quiet %v: Helm logs %q", quiet, logged.String())
		}
	}
	if slog.Default().Enabled(t.Context(), slog.LevelError) {
		t.Error("Helm's structured log is heard")
	}
}

func TestParseImage(t *testing.T) {
	for reference, want := range map[string]string{
		"demo@" + testDigest:                       "",
		"registry.example/a/b_c.d-e@" + testDigest: "",
		"localhost:5000/demo@" + testDigest:        "",
		"Registry.Example:443/demo@" + testDigest:  "",
		"demo":                  "can change its meaning",
		"demo:v1":               "can change its meaning",
		"demo:v1@" + testDigest: "has a tag",
		"registry.example:5000/demo:v1@" + testDigest:   "has a tag",
		"demo@sha256:1111":                              "no sha256 digest",
		"demo@sha512:" + strings.Repeat("1", 128):       "no sha256 digest",
		"demo@" + strings.ToUpper(testDigest):           "no sha256 digest",
		"demo@" + testDigest + "@" + testDigest:         "no sha256 digest",
		"demo@" + testDigest + "\n":                     "no sha256 digest",
		"@" + testDigest:                                "no valid name",
		"Demo@" + testDigest:                            "no valid name",
		"a//b@" + testDigest:                            "no valid name",
		"demo/@" + testDigest:                           "no valid name",
		strings.Repeat("a", 256) + "@" + testDigest:     "no valid name",
		"registry.example/" + "demo demo@" + testDigest: "no valid name",
		"": "can change its meaning",
	} {
		image, err := ParseImage(reference)
		switch {
		case want == "" && (err != nil || image.String() != reference):
			t.Errorf("A4.2: %q gives %v, %v", reference, image, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("A4.2: %q gives %v, want %q", reference, err, want)
		}
	}
}

// A4.4: the candidate goes where the profile says, and what stands beside it
// stays.
func TestImageInValues(t *testing.T) {
	image := Image{Name: "new", Digest: testDigest}
	for name, row := range map[string]struct {
		source       ImageSource
		before, want map[string]any
	}{
		"a reference at the top":   {ImageSource{"image", ImageReference}, map[string]any{"image": "old", "x": 1}, map[string]any{"image": "new@" + testDigest, "x": 1}},
		"a reference that is new":  {ImageSource{"a.b", ImageReference}, map[string]any{}, map[string]any{"a": map[string]any{"b": "new@" + testDigest}}},
		"a split one":              {ImageSource{"a", ImageSplit}, map[string]any{"a": map[string]any{"tag": "v1", "pullPolicy": "Always"}}, map[string]any{"a": map[string]any{"repository": "new", "digest": testDigest, "tag": "", "pullPolicy": "Always"}}},
		"a split one under a null": {ImageSource{"a.b", ImageSplit}, map[string]any{"a": nil}, map[string]any{"a": map[string]any{"b": map[string]any{"repository": "new", "digest": testDigest, "tag": ""}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := maps.Clone(row.before)
			if err := row.source.set(got, image); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A4.4: a chart that writes a tag between name and digest renders the
// candidate; the Job names it without.
func TestRenderedTagIsDropped(t *testing.T) {
	deployment := strings.Replace(smallDeployment, "{{ .Values.image }}", `{{ .Values.image | replace "@" ":v9@" }}`, 1)
	if got := renderJob(t, "", deployment).Spec.Template.Spec.Containers[0].Image; got != testImage {
		t.Errorf("got %s", got)
	}
}

// The example in the repository works with the built-in profile's format and
// with each behaviour that it promises (values: api.behaviour).
func TestExampleBehaviours(t *testing.T) {
	for _, behaviour := range []string{"hang", "fail", "print-secret"} {
		in := example(t)
		in.Values = fmt.Appendf(in.Values, "worker: {behaviour: %s}\n", behaviour)
		rendered, err := Render(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, slot := range rendered.Slots {
			want := slot.Name == "worker"
			if got := strings.Contains(string(slot.Manifest), `{"name":"DEMO_BEHAVIOUR","value":"`+behaviour+`"}`); got != want {
				t.Errorf("%s is told to %s: %v", slot.Name, behaviour, got)
			}
		}
	}
}

// A4.2: the chart is read, and nothing is written beside it.
func TestRenderLeavesTheChartAlone(t *testing.T) {
	in := smallInputs(t, "", smallSecret, smallDeployment)
	count := func() (n int) {
		err := filepath.WalkDir(in.Chart, func(string, os.DirEntry, error) error { n++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	if _, err := Render(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if after := count(); after != before {
		t.Errorf("%d files became %d", before, after)
	}
}
