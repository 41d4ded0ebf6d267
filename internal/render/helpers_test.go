package render

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	testNonce  = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	testDigest = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	oldDigest  = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	testImage  = "registry.example/holdfast/demo@" + testDigest
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(t *testing.T, profile string) *Profile {
	t.Helper()
	p, err := ParseProfile([]byte(profile))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// example are the inputs that the repository's example gives.
func example(t *testing.T) Inputs {
	t.Helper()
	return Inputs{
		Profile: parse(t, string(read(t, "../../examples/profile.yaml"))), Chart: "../../examples/chart",
		Values: read(t, "../../examples/values.yaml"), Image: testImage, Namespace: "demo-system", Release: "demo",
		Nonce: testNonce, Deadline: 90 * time.Second,
		Capabilities: Capabilities{KubeVersion: "v1.36.3", APIVersions: []string{"v1", "apps/v1", "batch/v1", "apps/v1/Deployment"}},
	}
}

// small is a chart of one Deployment and one Secret that a test changes, and a
// profile of one Job for it.
const (
	smallProfile = `
version: 1
name: small
image: {values: image, form: reference}
secret: {component: credentials}
jobs:
- slot: api
  from: {kind: Deployment, component: api, container: api}
`
	smallSecret = `
apiVersion: v1
kind: Secret
metadata: {name: credentials, labels: {app.kubernetes.io/component: credentials}}
stringData: {password: hunter2-and-more, port: "5432"}
`
	smallDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, labels: {app.kubernetes.io/component: api}}
spec:
  selector: {matchLabels: {app: api}}
  template:
    metadata:
      labels: {app: api, version: "1"}
      annotations: {checksum/config: abc}
    spec:
      containers:
      - name: api
        image: {{ .Values.image }}
        #container
      - name: proxy
        image: proxy:latest
        volumeMounts: [{name: claim, mountPath: /claim}]
      initContainers:
      - name: prepare
        image: prepare:latest
      volumes:
      - name: claim
        persistentVolumeClaim: {claimName: data}
      #pod
`
)

// chartDir writes a chart of the given templates.
func chartDir(t *testing.T, templates ...string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Chart.yaml"), "apiVersion: v2\nname: small\nversion: 1.2.3\n")
	for i, template := range templates {
		write(t, filepath.Join(dir, "templates", string(rune('a'+i))+".yaml"), template)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// with puts YAML lines at a marker of the small Deployment, in the marker's
// indentation.
func with(marker string, lines ...string) string {
	before, _, _ := strings.Cut(smallDeployment, "#"+marker)
	indent := before[strings.LastIndex(before, "\n"):]
	return strings.Replace(smallDeployment, "#"+marker, strings.Join(lines, indent), 1)
}

// smallInputs renders these templates by a profile to which lines of its one
// Job are added.
func smallInputs(t *testing.T, jobLines string, templates ...string) Inputs {
	t.Helper()
	in := example(t)
	in.Profile = parse(t, smallProfile+jobLines)
	in.Chart, in.Values = chartDir(t, templates...), nil
	return in
}
