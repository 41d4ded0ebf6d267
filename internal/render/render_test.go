package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A4.3, A4.4: the whole manifests of the example, as a plan would hold them.
func TestExampleManifests(t *testing.T) { checkGolden(t, "startup", example(t)) }

// A4.7: a resume attempt has the same slots, whose api and worker only say who
// they are, while the migration runs again.
func TestResumeRunsIdentityChecks(t *testing.T) {
	in := example(t)
	startup, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	in.IdentityOnly = true
	resume, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i, slot := range resume.Slots {
		want := string(startup.Slots[i].Manifest)
		if slot.Name == identity.SlotAPI || slot.Name == identity.SlotWorker {
			want = strings.ReplaceAll(want, "--check", "--identity")
		}
		if string(slot.Manifest) != want {
			t.Errorf("%s: got %s, want %s", slot.Name, slot.Manifest, want)
		}
	}
}

func checkGolden(t *testing.T, name string, in Inputs) {
	t.Helper()
	rendered, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, slot := range rendered.Slots {
		fmt.Fprintf(&got, "// %s after %v: %s\n", slot.Name, slot.After, slot.Object)
		if slot.Manifest != nil {
			if err := json.Indent(&got, slot.Manifest, "", "  "); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintln(&got, slot.SecretShape)
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		write(t, path, got.String())
	}
	if diff := cmp.Diff(string(read(t, path)), got.String()); diff != "" {
		t.Errorf("%s: %s", path, diff)
	}
}

// A4.1, A5.4: the order in which slots are created, and that the migration
// must have succeeded before the others start.
func TestCreateOrder(t *testing.T) {
	rendered, err := Render(t.Context(), example(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []identity.Slot
	for _, slot := range rendered.Slots {
		got = append(got, slot.Name)
		wantAfter := slot.Name == identity.SlotAPI || slot.Name == identity.SlotWorker
		if after := len(slot.After) == 1 && slot.After[0] == identity.SlotMigration; after != wantAfter {
			t.Errorf("%s starts after %v", slot.Name, slot.After)
		}
		if job := slot.Object.Kind == "Job"; job != (slot.Container != "") {
			t.Errorf("%s of kind %s names the container %q", slot.Name, slot.Object.Kind, slot.Container)
		}
	}
	want := []identity.Slot{identity.SlotSecret, identity.SlotNetworkPolicy, identity.SlotMigration, identity.SlotAPI, identity.SlotWorker}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A5.4: with the NetworkPolicy off in the chart and optional in the profile,
// the attempt has four slots.
func TestOptionalNetworkPolicy(t *testing.T) {
	in := example(t)
	in.Values = append(in.Values, []byte("networkPolicy: {enabled: false}\n")...)
	rendered, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(rendered.Slots) != 4 || rendered.Slots[1].Name != identity.SlotMigration {
		t.Errorf("got %d slots, the second is %s", len(rendered.Slots), rendered.Slots[1].Name)
	}
	in.Profile.NetworkPolicy.Optional = false
	wantRefusal(t, in, "renders no NetworkPolicy")
}

// A4.2: a chart is a directory or a .tgz, and both render the same.
func TestArchivesRenderLikeTheirDirectory(t *testing.T) {
	in := example(t)
	fromDirectory, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	tarred, packaged := tarball(t, in.Chart), helmPackage(t, in.Chart)
	for _, archive := range []string{tarred, packaged} {
		in.Chart = archive
		rendered, err := Render(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i, slot := range rendered.Slots {
			if !bytes.Equal(slot.Manifest, fromDirectory.Slots[i].Manifest) || slot.SecretShape != fromDirectory.Slots[i].SecretShape {
				t.Errorf("%s: %s differs from the directory's", archive, slot.Name)
			}
		}
		if archive == tarred && rendered.Chart != fromDirectory.Chart {
			t.Errorf("the same files have the digests %v and %v", rendered.Chart, fromDirectory.Chart)
		}
	}
}

func tarball(t *testing.T, dir string) string {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		if err := packed.WriteHeader(&tar.Header{Name: "holdfast-demo/" + path, Mode: 0o600, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = packed.Write(data)
		return err
	})
	if err := errors.Join(err, packed.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "chart.tgz")
	write(t, path, out.String())
	return path
}

func helmPackage(t *testing.T, dir string) string {
	t.Helper()
	loaded, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	path, err := chartutil.Save(loaded, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A3.1: each digest follows its own input and no other.
func TestDigestsFollowTheirInputs(t *testing.T) {
	base, err := Render(t.Context(), example(t))
	if err != nil {
		t.Fatal(err)
	}
	digests := func(r *Rendered) [2]string { return [2]string{r.Profile.SHA256, r.Chart.SHA256} }
	for changed, edit := range []func(*Inputs){
		func(in *Inputs) {
			in.Profile = parse(t, string(read(t, "../../examples/profile.yaml"))+"# a comment\n")
		},
		func(in *Inputs) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(in.Chart)); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "files", "x"), "x")
			in.Chart = dir
		},
	} {
		in := example(t)
		edit(&in)
		rendered, err := Render(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i, digest := range digests(rendered) {
			if same := digest == digests(base)[i]; same == (i == changed) {
				t.Errorf("with input %d changed, digest %d is the same: %v", changed, i, same)
			}
		}
	}
}

// A4.4: charts see the live cluster's capabilities and nothing that was
// compiled in, and lookup finds nothing.
func TestCapabilitiesAreTheClustersOwn(t *testing.T) {
	probe := `
apiVersion: v1
kind: ConfigMap
metadata: {name: probe}
data:
  version: {{ .Capabilities.KubeVersion.Version | quote }}
  served: {{ .Capabilities.APIVersions.Has "apps/v1/Deployment" | quote }}
  notServed: {{ .Capabilities.APIVersions.Has "policy/v1" | quote }}
  lookup: {{ len (lookup "v1" "Namespace" "" "kube-system") | quote }}
  upgrade: {{ .Release.IsUpgrade | quote }}
`
	rendered, err := Render(t.Context(), smallInputs(t, "", smallSecret, smallDeployment, probe))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range rendered.Objects {
		if object.GetKind() != "ConfigMap" {
			continue
		}
		want := map[string]any{"version": "v1.36.3", "served": "true", "notServed": "false", "lookup": "0", "upgrade": "true"}
		if diff := cmp.Diff(want, object.Object["data"]); diff != "" {
			t.Error(diff)
		}
		return
	}
	t.Error("the probe is not among the objects")
}

// A4.3: what is compared with the preflight's Pods is the whole chart, its
// hooks and Lists too, without its tests, its Secrets and other namespaces.
func TestObjectsOfTheChart(t *testing.T) {
	more := `
# only a comment
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: listed}}
- {apiVersion: v1, kind: Service, metadata: {name: foreign, namespace: elsewhere}}
---
apiVersion: v1
kind: Pod
metadata: {name: test, annotations: {helm.sh/hook: test}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: hook, annotations: {helm.sh/hook: pre-upgrade}}
`
	rendered, err := Render(t.Context(), smallInputs(t, "", smallSecret, smallDeployment, more))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range rendered.Objects {
		got = append(got, object.GetKind()+"/"+object.GetName())
	}
	if diff := cmp.Diff([]string{"Deployment/api", "Service/listed", "Job/hook"}, got); diff != "" {
		t.Error(diff)
	}
}

// A4.3: the plan hash goes on the object and on its Pods, and changes nothing
// else.
func TestWithPlanHash(t *testing.T) {
	rendered, err := Render(t.Context(), example(t))
	if err != nil {
		t.Fatal(err)
	}
	const hash = "cafe"
	mark := fmt.Sprintf("%q:%q", identity.PlanAnnotation, hash)
	for _, slot := range rendered.Slots {
		body, err := slot.Body(hash)
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		if slot.Object.Kind == "Job" {
			want = 2
		}
		if got := strings.Count(string(body), mark); got != want {
			t.Errorf("%s carries the plan hash %d times, want %d", slot.Name, got, want)
		}
		if slot.Manifest == nil {
			continue
		}
		if bytes.Contains(slot.Manifest, []byte(identity.PlanAnnotation)) {
			t.Errorf("%s: the plan would contain its own hash", slot.Name)
		}
		if back := strings.ReplaceAll(string(body), ","+mark, ""); back != string(slot.Manifest) {
			t.Errorf("%s: more than the plan hash changed:\n%s\n%s", slot.Name, back, slot.Manifest)
		}
	}
	if _, err := withPlanHash([]byte(`{"data":"aHVudGVyMg=="`), hash); err == nil || strings.Contains(err.Error(), "aHV") {
		t.Errorf("a broken manifest gives %v", err)
	}
}

// A1.5, A5.4: what is recorded is spelt as the loader demands it, with whatever a
// command or an annotation holds, and so is what is sent.
func TestManifestsAreCanonical(t *testing.T) {
	shell := with("container", `command: ["sh", "-c", "check 2>&1 && echo '<ok>' \u2028"]`, `env: [{name: URL, value: "http://x/?a=1&b=<2>"}]`)
	for name, in := range map[string]Inputs{"the example": example(t), "a shell's words": smallInputs(t, "", shell, smallSecret)} {
		rendered, err := Render(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, slot := range rendered.Slots {
			sent, err := slot.Body(strings.Repeat("a", 64))
			if err != nil {
				t.Fatal(err)
			}
			for _, manifest := range [][]byte{slot.Manifest, sent} {
				if manifest == nil {
					continue
				}
				if err := strictjson.Canonical(manifest); err != nil {
					t.Errorf("%s, %s: %v:\n%s", name, slot.Name, err, manifest)
				}
			}
		}
	}
}

// A4.2: a cancelled run renders nothing.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Render(ctx, example(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A3.6: the helper's identity covers the embedded profile.
func TestAssets(t *testing.T) {
	assets, err := Assets()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"render/" + builtinPath: profile.digest}, assets); diff != "" {
		t.Error(diff)
	}
}

func wantRefusal(t *testing.T, in Inputs, want string) {
	t.Helper()
	_, err := Render(t.Context(), in)
	var refused *InputError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want an input error with %q", err, want)
	}
	if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %q, want one line with %q", err, want)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error tells a value: %q", err)
	}
}
