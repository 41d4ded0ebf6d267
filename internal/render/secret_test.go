package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// A3.3: no value is in anything that may be written, printed or logged, and it
// is in the one body that is sent.
func TestSecretValuesStayInside(t *testing.T) {
	in := example(t)
	const canary = "canary-7f3a9c-value"
	in.Values = []byte("credentials: {databaseURL: " + canary + ", token: " + canary + "-2}\n")
	rendered, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	hidden := []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), fmt.Sprintf("%x", canary), fmt.Sprintf("%d", []byte(canary))}
	secret := rendered.Slots[0]
	asJSON, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{
		"%v": fmt.Sprintf("%v", rendered), "%+v": fmt.Sprintf("%+v", *rendered), "%#v": fmt.Sprintf("%#v", *rendered),
		"the slot": fmt.Sprintf("%+v", secret), "JSON": string(asJSON),
	}
	for _, slot := range rendered.Slots {
		shown["manifest of "+string(slot.Name)] = string(slot.Manifest)
	}
	for where, text := range shown {
		for _, form := range hidden {
			if strings.Contains(text, form) {
				t.Errorf("%s shows %q", where, form)
			}
		}
	}
	body, err := secret.Body("hash")
	if err != nil {
		t.Fatal(err)
	}
	var sent corev1.Secret
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	if string(sent.Data["databaseURL"]) != canary || sent.Name != secret.Object.Name || sent.Labels[identity.InstanceLabel] != "demo" {
		t.Errorf("the body is %s", body)
	}
	if got := rendered.SecretValues(); len(got) != 2 || string(got[0]) != canary {
		t.Errorf("for redaction there are %q", got)
	}
}

// A3.3: the shape follows keys and lengths, and no value.
func TestSecretShape(t *testing.T) {
	shape := func(data map[string][]byte) string {
		s := &secretData{data: func() map[string][]byte { return data }}
		got, err := s.shape()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	base := shape(map[string][]byte{"a": []byte("xy"), "b": nil})
	for name, row := range map[string]struct {
		data map[string][]byte
		same bool
	}{
		"another value of the same length": {map[string][]byte{"a": []byte("zz"), "b": {}}, true},
		"another length":                   {map[string][]byte{"a": []byte("x"), "b": nil}, false},
		"another key":                      {map[string][]byte{"a": []byte("xy"), "c": nil}, false},
		"one more key":                     {map[string][]byte{"a": []byte("xy"), "b": nil, "c": nil}, false},
		"the length at another key":        {map[string][]byte{"a": nil, "b": []byte("xy")}, false},
	} {
		if got := shape(row.data) == base; got != row.same {
			t.Errorf("%s: the same shape: %v", name, got)
		}
	}
	if base != strictjson.Sum([]byte(`{"a":2,"b":0}`)) {
		t.Error("the shape is not what the reference says")
	}
}

// A6.8: a Secret's value in plain text refuses the plan, and the refusal does
// not repeat it.
func TestLiteralsThatAreSecrets(t *testing.T) {
	env := func(value string) string { return `env: [{name: E, value: "` + value + `"}]` }
	encoded := base64.StdEncoding.EncodeToString([]byte("hunter2-and-more"))
	for name, row := range map[string]struct {
		job, line, want string
	}{
		"A6.8: an equal literal":                  {"", env("hunter2-and-more"), `"E" in container "api"`},
		"A6.8: an equal literal, however short":   {"", env("5432"), `"E" in container "api"`},
		"A6.8: a longer literal that holds it":    {"", env("postgres://u:hunter2-and-more@db"), `"E" in container "api"`},
		"A6.8: a literal that holds it in base64": {"", env("Basic " + encoded), `"E" in container "api"`},
		"A6.8: an argument":                       {"", "args: [--password=hunter2-and-more]", `the command of container "api"`},
		"A6.8: a command":                         {"", "command: [run, hunter2-and-more]", `the command of container "api"`},
		"A6.8: a profile's argument":              {"  startup: {args: [hunter2-and-more]}\n", "args: []", `the command of container "api"`},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, smallInputs(t, row.job, smallSecret, with("container", row.line)), row.want)
		})
	}
	for name, line := range map[string]string{
		"a short value inside a longer literal": env("db:5432/x"),
		"an empty literal":                      env(""),
		"a value from the Secret":               "env: [{name: E, valueFrom: {secretKeyRef: {name: credentials, key: password}}}]",
	} {
		t.Run("A6.8 lets through "+name, func(t *testing.T) { renderJob(t, "", with("container", line)) })
	}
	t.Run("A6.8: a Secret that is not copied is one too", func(t *testing.T) {
		other := strings.ReplaceAll(strings.ReplaceAll(smallSecret, "credentials", "other"), "hunter2-and-more", "hunter2-elsewhere")
		wantRefusal(t, smallInputs(t, "", smallSecret, other, with("container", env("hunter2-elsewhere"))), `"E"`)
	})
}

// A3.3, A6.8: the manifest is written whole, so that every field of it that holds
// free text is looked into.
func TestSecretsOutsideTheEnvironment(t *testing.T) {
	annotated := func(value string) string {
		return strings.Replace(smallDeployment, "checksum/config: abc", "agent/config: "+value, 1)
	}
	sidecar := func(probe string) string {
		return strings.Replace(smallDeployment, "image: prepare:latest",
			"image: prepare@"+testDigest+"\n        restartPolicy: Always\n        startupProbe: "+probe, 1)
	}
	driver := strings.Replace(with("container", "volumeMounts: [{name: v, mountPath: /v}]"), "#pod",
		"- {name: v, csi: {driver: x, volumeAttributes: {password: hunter2-and-more}}}", 1)
	const keep = "  initContainers: [prepare]\n"
	for name, row := range map[string]struct {
		job, deployment, want string
	}{
		"an annotation":              {"", annotated(`"user=a;password=hunter2-and-more"`), `annotation "agent/config"`},
		"an annotation in base64":    {"", annotated(base64.StdEncoding.EncodeToString([]byte("hunter2-and-more"))), `annotation "agent/config"`},
		"a probe's header":           {keep, sidecar("{httpGet: {port: 1, httpHeaders: [{name: Authorization, value: hunter2-and-more}]}}"), `the startup probe of container "prepare"`},
		"a probe's path":             {keep, sidecar("{httpGet: {port: 1, path: '/?key=hunter2-and-more'}}"), `the startup probe of container "prepare"`},
		"a probe's command":          {keep, sidecar("{exec: {command: [x, hunter2-and-more]}}"), `the startup probe of container "prepare"`},
		"an attribute of a driver's": {"  allow: [csi]\n", driver, `attribute "password" of volume "v"`},
	} {
		t.Run("A6.8: "+name, func(t *testing.T) {
			wantRefusal(t, smallInputs(t, row.job, smallSecret, row.deployment), row.want)
		})
	}
	t.Run("A6.8 lets through a short value", func(t *testing.T) { renderJob(t, "", annotated(`"5432"`)) })
}

// A4.4: every way to read the original becomes one to read the copy, and other
// Secrets stay the release's own.
func TestReferencesToTheSecret(t *testing.T) {
	const copied = "demo-preflight-secret-0a1b2c3d"
	deployment := with("container",
		"env:",
		"- {name: A, valueFrom: {secretKeyRef: {name: credentials, key: password}}}",
		"- {name: B, valueFrom: {secretKeyRef: {name: other, key: x}}}",
		"- {name: C, valueFrom: {secretKeyRef: {name: credentials, key: missing, optional: true}}}",
		"envFrom: [{secretRef: {name: credentials}}, {secretRef: {name: other}}, {configMapRef: {name: credentials}}]",
		"volumeMounts: [{name: s, mountPath: /s}, {name: p, mountPath: /p}]")
	deployment = strings.Replace(deployment, "#pod", strings.Join([]string{
		"- {name: s, secret: {secretName: credentials, items: [{key: password, path: p}]}}",
		"- {name: p, projected: {sources: [{secret: {name: credentials}}, {configMap: {name: credentials}}, {secret: {name: other}}]}}",
		"imagePullSecrets: [{name: credentials}, {name: registry}]"}, "\n      "), 1)
	pod := renderJob(t, "", deployment).Spec.Template.Spec
	c := pod.Containers[0]
	got := []string{
		c.Env[0].ValueFrom.SecretKeyRef.Name, c.Env[1].ValueFrom.SecretKeyRef.Name, c.Env[2].ValueFrom.SecretKeyRef.Name,
		c.EnvFrom[0].SecretRef.Name, c.EnvFrom[1].SecretRef.Name, c.EnvFrom[2].ConfigMapRef.Name,
		pod.Volumes[0].Secret.SecretName,
		pod.Volumes[1].Projected.Sources[0].Secret.Name, pod.Volumes[1].Projected.Sources[1].ConfigMap.Name, pod.Volumes[1].Projected.Sources[2].Secret.Name,
		pod.ImagePullSecrets[0].Name, pod.ImagePullSecrets[1].Name,
	}
	want := []string{copied, "other", copied, copied, "other", "credentials", copied, copied, "credentials", "other", copied, "registry"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestSecretsThatAreRefused(t *testing.T) {
	reads := func(key string) string {
		return with("container", "env: [{name: A, valueFrom: {secretKeyRef: {name: credentials, key: "+key+"}}}]")
	}
	for name, row := range map[string]struct {
		keys               []string
		secret, deployment string
		want               string
	}{
		"A4.4: none in the chart":         {nil, "", smallDeployment, "renders no Secret"},
		"A4.4: a key the profile names":   {[]string{"absent"}, smallSecret, smallDeployment, `lacks the key "absent"`},
		"A4.4: a key that is not copied":  {[]string{"port"}, smallSecret, reads("password"), `reads the key "password"`},
		"A4.4: a key that is nowhere":     {nil, smallSecret, reads("absent"), `reads the key "absent"`},
		"A4.4: a mounted key":             {[]string{"port"}, smallSecret, strings.Replace(with("container", "volumeMounts: [{name: s, mountPath: /s}]"), "#pod", "- {name: s, secret: {secretName: credentials, items: [{key: password, path: p}]}}", 1), `reads the key "password"`},
		"A4.4: a service account's token": {nil, smallSecret + "type: kubernetes.io/service-account-token\n", smallDeployment, "service-account token"},
		"A4.4: data that is not base64":   {nil, strings.Replace(smallSecret, "stringData: {password: hunter2-and-more", "data: {password: hunter2!", 1), smallDeployment, "not base64"},
		"A4.4: a Secret that is no YAML":  {nil, smallSecret + "  bad: [hunter2", smallDeployment, "does not render to valid YAML"},
		"A4.4: a document without a kind": {nil, smallSecret + "\n---\npassword: hunter2\n", smallDeployment, "no Kubernetes object"},
	} {
		t.Run(name, func(t *testing.T) {
			in := smallInputs(t, "", row.deployment, row.secret)
			in.Profile.Secret.Keys = row.keys
			wantRefusal(t, in, row.want)
		})
	}
}

// A4.4: a selection of keys is all that is copied.
func TestSecretKeys(t *testing.T) {
	in := smallInputs(t, "", smallSecret+"type: example.com/special\n", smallDeployment)
	for _, row := range []struct {
		keys []string
		want string
	}{
		{nil, `{"password":"aHVudGVyMi1hbmQtbW9yZQ==","port":"NTQzMg=="} example.com/special`},
		{[]string{"port"}, `{"port":"NTQzMg=="} Opaque`},
	} {
		in.Profile.Secret.Keys = row.keys
		rendered, err := Render(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		body, err := rendered.Slots[0].Body("h")
		if err != nil {
			t.Fatal(err)
		}
		var sent struct {
			Data json.RawMessage
			Type string
		}
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Fatal(err)
		}
		if got := string(sent.Data) + " " + sent.Type; got != row.want {
			t.Errorf("keys %v: got %s, want %s", row.keys, got, row.want)
		}
	}
}

// A profile without a Secret gives an attempt without that slot (A5.4).
func TestNoSecret(t *testing.T) {
	in := smallInputs(t, "", smallSecret, with("container", "envFrom: [{secretRef: {name: credentials}}]"))
	in.Profile.Secret = nil
	rendered, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(rendered.Slots) != 1 || !strings.Contains(string(rendered.Slots[0].Manifest), `"secretRef":{"name":"credentials"}`) {
		t.Errorf("got %s", rendered.Slots[0].Manifest)
	}
}

// A4.2: what Helm says about private values does not quote them.
func TestHelmsComplaintsAreCensored(t *testing.T) {
	fail := "{{ fail (printf \"wrong: %s\" .Values.password) }}"
	for name, row := range map[string]struct{ values, template, schema, want string }{
		"a template's fail":        {"password: hunter2-long", fail, "", "wrong: [value]"},
		"a value with a quote":     {`password: "hunter2\"long\nline"`, "{{ fail (printf \"wrong: %q\" .Values.password) }}", "", "[value]"},
		"a schema":                 {"password: hunter2-long", "", `{"properties": {"password": {"pattern": "^x$"}}}`, "[value]"},
		"a number":                 {"password: 1234567890123", "{{ fail (toString .Values.password) }}", "", "rendering small"},
		"values that are no map":   {"[hunter2]", "", "", "not a YAML map"},
		"values that are not YAML": {"password: [hunter2", "", "", "not a YAML map"},
	} {
		t.Run(name, func(t *testing.T) {
			in := smallInputs(t, "", smallSecret, smallDeployment, row.template)
			in.Values = []byte(row.values)
			if row.schema != "" {
				write(t, in.Chart+"/values.schema.json", row.schema)
			}
			_, err := Render(t.Context(), in)
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, want one line with %q", err, row.want)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "12345678") {
				t.Errorf("a value is told: %v", err)
			}
		})
	}
}
