package plunger

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spf13/pflag"
)

// B8.1: every flag in the page's table exists and has the default that it says.
func TestPageNamesFlagsAsTheyAre(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations", "flux-plunger.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| `([^`]*)` \\| .+ \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 10 {
		t.Fatalf("the page's table of flags has %d rows", len(rows))
	}
	defined := newCommand().Flags()
	explained := map[string]bool{}
	for _, row := range rows {
		explained[row[1]] = true
		switch flag := defined.Lookup(row[1]); {
		case flag == nil:
			t.Errorf("--%s does not exist", row[1])
		case flag.DefValue != row[2] && row[2] != `""`, row[2] == `""` && flag.DefValue != "":
			t.Errorf("--%s: its default is %q, the page says %q", row[1], flag.DefValue, row[2])
		}
	}
	// What changes a decision is never left to --help alone (B3.4, B4.1b, B5.9, B8.5, B10.7).
	var own flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.bind(set)
	for _, name := range []string{"strategy", "fence-until", "unproven-uninstall", "allow-cross-namespace-storage", "recover-uninstalled", "dry-run", "leader-elect"} {
		if set.Lookup(name) == nil || !explained[name] {
			t.Errorf("--%s is not explained", name)
		}
	}
}
