package plunger_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/plunger"
)

// B8.4: an operator's kubeconfig that cannot be decoded is not quoted; client-go
// prints the tokens of two users of one name.
func TestConnectQuotesNoToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user: {token: planted-token-77}\n- name: u\n  user: {}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	_, err := plunger.Connect(1, 1)
	if err == nil || strings.Contains(err.Error(), "planted") || !strings.Contains(err.Error(), "cannot be decoded") {
		t.Errorf("got %v", err)
	}
}

// B8.4: client-go passes over a kubeconfig that does not exist. What was looked for
// is named all the same.
func TestConnectNamesTheKubeconfig(t *testing.T) {
	existing := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: absent\n"
	if err := os.WriteFile(existing, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/nonexistent/config", existing} {
		t.Setenv("KUBECONFIG", path)
		if _, err := plunger.Connect(1, 1); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}
