package kube

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const kubeconfigTemplate = `apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "https://127.0.0.1:1"%s}
contexts:
- name: ctx
  context: {cluster: c, user: u}
users:
- name: u
  user: {%s}
`

func kubeconfig(cluster, user string) []byte {
	return fmt.Appendf(nil, kubeconfigTemplate, cluster, user)
}

func plain(server string) []byte {
	return []byte(strings.Replace(string(kubeconfig("", "token: t")), "https://127.0.0.1:1", server, 1))
}

// A5.3: what a kubeconfig must be; nothing is sent for any of these.
func TestA5_3_Kubeconfig(t *testing.T) {
	for name, row := range map[string]struct {
		kubeconfig []byte
		context    string
		problem    string
	}{
		"good":             {kubeconfig("", "token: t"), "ctx", ""},
		"no such context":  {kubeconfig("", "token: t"), "other", `context "other"`},
		"no context":       {kubeconfig("", "token: t"), "", `context ""`},
		"not yaml":         {[]byte("\t:"), "ctx", "parsing"},
		"skips tls":        {kubeconfig(", insecure-skip-tls-verify: true", "token: t"), "ctx", "insecure-skip-tls-verify"},
		"no tls":           {plain("http://10.0.0.1:8080"), "ctx", "plain http"},
		"no scheme":        {plain("cluster.example:8080"), "ctx", "plain http"},
		"a local proxy":    {plain("http://127.0.0.1:8001"), "ctx", ""},
		"missing ca":       {kubeconfig(", certificate-authority: no-such-file", "token: t"), "ctx", "no-such-file"},
		"ancient provider": {kubeconfig("", "auth-provider: {name: gcp}"), "ctx", "gcp"},
	} {
		_, err := New(row.kubeconfig, row.context, Options{Dir: t.TempDir()})
		if (err == nil) != (row.problem == "") || (err != nil && !strings.Contains(err.Error(), row.problem)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Relative paths are the kubeconfig's own, not the working directory's.
func TestRelativePathsAreTheKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	h := newHostile(t, "http/1.1", respond(429, "", true))
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), h.config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(kubeconfig(", certificate-authority: ca.pem", "token: t")), "https://127.0.0.1:1", h.config.Host, 1)
	c, err := New([]byte(text), "ctx", Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if created := c.Create(t.Context(), testCreate()); created.Outcome != Rejected {
		t.Errorf("%v: %v", created.Outcome, created.Err)
	}
}

func testCreate() CreateRequest {
	return CreateRequest{Place: testJob(), Body: []byte(`{"secret":"hunter2-canary"}`), AuditID: NewAuditID(), Nonce: testNonce}
}

// A3.7: an exec plugin is named before it runs, and one whose login fails sends
// nothing, so that the create is settled.
func TestA3_7_ExecPlugin(t *testing.T) {
	dir := t.TempDir()
	plugin := filepath.Join(dir, "login")
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\ntouch "+dir+"/ran\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := kubeconfig("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, interactiveMode: Never}")
	c, err := New(text, "ctx", Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if c.ExecPlugin() != plugin {
		t.Errorf("the plugin is named %q", c.ExecPlugin())
	}
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("New ran the plugin")
	}
	if created := c.Create(t.Context(), testCreate()); created.Outcome != Unsent {
		t.Errorf("%v: %v", created.Outcome, created.Err)
	}
	if _, err := os.Stat(dir + "/ran"); err != nil {
		t.Error("the plugin did not run, so this test proves nothing")
	}
}

// A3.7, A4.1, A6.10: a login that hangs, such as one that waits for somebody at a
// browser, holds up no request longer than its bound and no signal: nothing has been
// sent, and nothing is sent for it when the login ends later.
func TestA4_1_HangingLogin(t *testing.T) {
	dir := t.TempDir()
	pipe, plugin := filepath.Join(dir, "pipe"), filepath.Join(dir, "login")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nread line <" + pipe + "\necho " +
		`'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}'` + "\n"
	if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	h := newHostile(t, "http/1.1", respond(429, "", true))
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), h.config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	text := string(kubeconfig(", certificate-authority: ca.pem", "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, interactiveMode: Never}"))
	c, err := New([]byte(strings.Replace(text, "https://127.0.0.1:1", h.config.Host, 1)), "ctx", Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := testCreate()
	want.Wait = 100 * time.Millisecond
	if created := c.Create(t.Context(), want); created.Outcome != Unsent {
		t.Errorf("a create: %v: %v", created.Outcome, created.Err)
	}
	ctx, signal := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, signal)
	var unsent *NotSent
	if found := c.Observe(ctx, testJob()); found.Presence != NotRead || !errors.As(found.Err, &unsent) || !errors.Is(found.Err, context.Canceled) {
		t.Errorf("a read: %v: %v", found.Presence, found.Err)
	}
	// The login ends. A request that is made now gets through, and is the only one.
	if err := os.WriteFile(pipe, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if created := c.Create(t.Context(), testCreate()); created.Outcome != Rejected {
		t.Errorf("a create after the login: %v: %v", created.Outcome, created.Err)
	}
	if n := h.posts.Load(); n != 1 {
		t.Errorf("%d requests reached the server", n)
	}
}

// A6.8: no body is ever logged, however verbose klog is.
func TestA6_8_BodiesAreNotLogged(t *testing.T) {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	var logged bytes.Buffer
	for name, value := range map[string]string{"v": "10", "logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(&logged)
	t.Cleanup(func() {
		klog.Flush()
		_ = flags.Set("v", "0")
		_ = flags.Set("logtostderr", "true")
	})
	network := &answers{code: 403, header: http.Header{"Audit-Id": {"echo"}}, body: "answer-canary"}
	config := &rest.Config{Host: "http://cluster.invalid", Transport: network, BearerToken: "token-canary"}
	c, err := newForConfig(config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Create(t.Context(), testCreate())
	c.Observe(t.Context(), testJob())
	klog.Flush()
	for _, canary := range []string{"hunter2", "answer-canary", "token-canary", base64.StdEncoding.EncodeToString([]byte("hunter2-canary"))} {
		if strings.Contains(logged.String(), canary) {
			t.Errorf("%s is logged: %s", canary, logged.String())
		}
	}
	// Control: stock client-go logs the body under the same flags.
	stock := c.rest.Post().AbsPath("/x").Body([]byte("hunter2-canary")).MaxRetries(0)
	_, _ = stock.DoRaw(t.Context())
	klog.Flush()
	if !strings.Contains(logged.String(), "hunter2") {
		t.Error("klog is not verbose here, so this test proves nothing")
	}
}

// A4.1: once a create is on its way, nothing the caller does cancels it.
func TestA4_1_InFlightCreateIsNotCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	network := &answers{code: 201, header: http.Header{"Audit-Id": {"echo"}}, body: bodies(201)["object"]}
	c := over(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		cancel()
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		return network.RoundTrip(r)
	}))
	if created := c.Create(ctx, testCreate()); created.Outcome != Acknowledged {
		t.Errorf("%v: %v", created.Outcome, created.Err)
	}
	// Control: a read is cancelled.
	if seen := c.Observe(ctx, testJob()); seen.Presence != NotRead {
		t.Errorf("a read went on: %v", seen.Presence)
	}
}

// A3.7: a read is repeated when the server asks for it, and a create never.
func TestA3_7_ReadsAreRepeatedAndCreatesAreNot(t *testing.T) {
	network := &answers{code: 503, header: http.Header{"Retry-After": {"0"}}}
	c := over(t, network)
	for _, step := range []struct {
		send func()
		want int64
	}{
		{func() { c.Observe(t.Context(), testJob()) }, readRetries + 1},
		{func() { c.Create(t.Context(), testCreate()) }, 1},
		{func() {
			_, _ = c.PodLog(t.Context(), "ns", "pod", "main", PodLogLimits{Bytes: 1, Lines: 1})
		}, readRetries + 1},
	} {
		before := network.posts.Load()
		step.send()
		if n := network.posts.Load() - before; n != step.want {
			t.Errorf("%d requests on the wire, want %d", n, step.want)
		}
	}
}

// A4.2b: Warning headers reach the callback.
func TestA4_2b_Warnings(t *testing.T) {
	var warned []string
	network := &answers{code: 200, header: http.Header{"Warning": {`299 - "would violate PodSecurity"`, `299 - "second"`, "broken"}}}
	c, err := newForConfig(&rest.Config{Host: "http://cluster.invalid", Transport: network}, Options{Warn: func(text string) { warned = append(warned, text) }})
	if err != nil {
		t.Fatal(err)
	}
	c.Observe(t.Context(), testJob())
	if strings.Join(warned, "|") != "would violate PodSecurity|second" {
		t.Errorf("got %q", warned)
	}
}

// A2.5, A4.1: a create's answer is there before anybody tells what the server warned
// of: a terminal that is held up would keep the UID from the disk. The warnings come
// with it.
func TestA2_5_WarningsOfACreateComeWithItsOutcome(t *testing.T) {
	for code, want := range map[int]Outcome{201: Acknowledged, 403: Rejected, 500: Unknown} {
		network := &answers{code: code, header: http.Header{"Audit-Id": {"echo"}, "Warning": {`299 - "would violate PodSecurity"`}}, body: bodies(code)["object"]}
		if code != 201 {
			network.body = bodies(code)["status"]
		}
		told := false
		c, err := newForConfig(&rest.Config{Host: "http://cluster.invalid", Transport: network}, Options{Warn: func(string) { told = true }})
		if err != nil {
			t.Fatal(err)
		}
		created := c.Create(t.Context(), testCreate())
		if created.Outcome != want || strings.Join(created.Warnings, "|") != "would violate PodSecurity" || told {
			t.Errorf("%d: %v with the warnings %q, told before: %v: %v", code, created.Outcome, created.Warnings, told, created.Err)
		}
	}
}
