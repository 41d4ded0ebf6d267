package kube

import (
	"strings"
	"testing"
)

const fuzzKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "https://127.0.0.1:6443"}
users:
- name: u
  user: {token: planted-token-77}
contexts:
- name: prod
  context: {cluster: c, user: u}
`

// A3.8, A5.3: whatever a kubeconfig holds, it is refused in one error or becomes a
// client that verifies its server; an error that the caller has redacted quotes no
// password.
func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(fuzzKubeconfig), "prod")
	f.Add([]byte(strings.Replace(fuzzKubeconfig, "server:", "insecure-skip-tls-verify: true, server:", 1)), "prod")
	f.Add([]byte(strings.Replace(fuzzKubeconfig, "token: planted-token-77", "exec: {apiVersion: client.authentication.k8s.io/v1, command: login}", 1)), "prod")
	f.Add([]byte(strings.Replace(fuzzKubeconfig, "planted", "*planted", 1)), "prod")
	f.Add([]byte("a: &a [*a]"), "")
	f.Add([]byte("{"), "x")
	f.Fuzz(func(t *testing.T, content []byte, contextName string) {
		// A path in a kubeconfig is read as the operator wrote it: a device that
		// never ends is theirs, and nothing that parsing decides.
		for _, word := range []string{"certificate", "key", "tokenFile", "/"} {
			if strings.Contains(strings.ReplaceAll(string(content), "https://", ""), word) {
				return
			}
		}
		client, err := New(content, contextName, Options{})
		if err != nil {
			if client != nil {
				t.Fatal("a client and an error")
			}
			if strings.Contains(err.Error(), "planted-token-77") {
				t.Fatalf("the token is quoted: %v", err)
			}
			return
		}
		if contextName == "" || strings.Contains(string(content), "insecure-skip-tls-verify: true, server") {
			t.Fatalf("accepted: %s", content)
		}
	})
}
