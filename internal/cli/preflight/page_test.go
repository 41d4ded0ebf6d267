package preflight

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/kube"
)

const (
	readme        = "README.md"
	preflightPage = "docs/operations/preflight.md"
	cleanupPage   = "docs/operations/cleanup.md"
	resumePage    = "docs/operations/resume.md"
	profilePage   = "docs/reference/profile.md"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A8.2, A5.1: every flag that a page names is one of the command.
func TestPagesNameFlagsAsTheyAre(t *testing.T) {
	root := (&command{}).root()
	known := func(name string) bool {
		for _, sub := range root.Commands() {
			if sub.Flags().Lookup(name) != nil {
				return true
			}
		}
		// The last three are helm template's and those of the example's programs.
		return root.Flags().Lookup(name) != nil || slices.Contains([]string{"is-upgrade", "check", "identity"}, name)
	}
	for _, name := range []string{readme, preflightPage, cleanupPage, resumePage, profilePage} {
		named := regexp.MustCompile("--([a-z]+(-[a-z]+)*)").FindAllStringSubmatch(page(t, name), -1)
		if len(named) == 0 {
			t.Errorf("%s names no flag", name)
		}
		for _, flag := range named {
			if !known(flag[1]) {
				t.Errorf("%s names --%s, which does not exist", name, flag[1])
			}
		}
	}
}

// A8.2: the command lines of the pages are judged as what they are shown for.
func TestPagesShowCommandsThatAreAccepted(t *testing.T) {
	// A command of several lines, each but the last with a backslash at its end.
	command := regexp.MustCompile(`(?m)upgrade-production-images (--.*\\\n(?:.*\\\n)*.*)$`)
	digest := "sha256:" + strings.Repeat("0", 64)
	for name, want := range map[string]mode{readme: modePreflight, preflightPage: modePreflight, cleanupPage: modeCleanup, resumePage: modeResume} {
		shown := command.FindStringSubmatch(page(t, name))
		if shown == nil {
			t.Fatalf("%s shows no command", name)
		}
		line := strings.NewReplacer("\\\n", " ", "'", "", "sha256:…", digest, "sha256:<original-digest>", digest).Replace(shown[1])
		var o options
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.register(flags)
		if err := flags.Parse(strings.Fields(line)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var given []string
		flags.Visit(func(f *pflag.Flag) { given = append(given, f.Name) })
		if got, err := judge(o, given); got != want || err != nil || flags.NArg() > 0 {
			t.Errorf("%s: mode %d, %v, arguments %q", name, got, err, flags.Args())
		}
	}
}

// A8.1, A8.2: what the operator's page must say.
func TestCleanupPageIsWhole(t *testing.T) {
	text := strings.Join(strings.Fields(page(t, cleanupPage)), " ")
	outcomes := []evidence.Outcome{
		evidence.Absent, evidence.Retained, evidence.Conflict, evidence.Orphaned,
		evidence.Unexplained, evidence.Remaining, evidence.Unreadable,
	}
	want := []string{
		"Keep one operator and any maintenance freeze",
		"reconciled requests that they may have submitted",
		"original directory with its original files", "not a backup",
		"same kubeconfig file at the same path with the same bytes, the same context, namespace and release",
		"The same executable must do it",
		"| Exit 0, `complete: true`", "| Exit 1, `complete: false`", "| Exit 2 ", "| Exit 3, `verdict: reconciled`", "| Exit 129, 130, 143",
		"run the same command again",
		"Never create a journal and never fill in a receipt", "A current successful GET cannot repair a missing history",
		"locate candidates; they do not authorise", "Delete only with `preconditions.uid`, for the original kind, namespace and name",
		"Jobs in the foreground", "Pods confirmed gone, before Secret and NetworkPolicy",
		"Return to recovery only after the release owner has resolved every uncertainty",
		"does not run Helm, migrate a database, scale workloads, create Kubernetes resources, remove `.upgrade-lock`, resume an upgrade or authorise a resume",
		"no service key and no candidate image",
		"does not prove that the release is healthy, what a migration did, or that a database can be rolled back",
		"Neither a fixture nor a control plane in a test proves a production upgrade or a database rollback",
		"a partitioned Job controller", "in-place restore of the evidence", "restore of etcd", "names our Job as its owner",
	}
	for _, outcome := range outcomes {
		want = append(want, "| `"+string(outcome)+"` |")
	}
	if missing := slices.DeleteFunc(want, func(words string) bool { return strings.Contains(text, words) }); len(missing) > 0 {
		t.Errorf("the page does not say %q", missing)
	}
}

// A8.2: what a page quotes under "It says" is what the program says. A quoted phrase
// stands in one line of the source, with something else at each "…".
func TestPagesQuoteWhatIsSaid(t *testing.T) {
	source := sourceOf(t, filepath.Join("..", ".."))
	for _, name := range []string{preflightPage, cleanupPage, resumePage} {
		table, quoted := false, 0
		for line := range strings.Lines(page(t, name)) {
			cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
			switch {
			case !strings.HasPrefix(line, "| "):
				table = false
			case cell == "It says":
				table = true
			case table:
				for _, phrase := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
					quoted++
					words := strings.ReplaceAll(regexp.QuoteMeta(phrase[1]), "…", `[^"\n]*`)
					if !regexp.MustCompile(words).MatchString(source) {
						t.Errorf("%s quotes %q, which nothing says", name, phrase[1])
					}
				}
			}
		}
		if quoted < 5 {
			t.Errorf("%s quotes only %d phrases", name, quoted)
		}
	}
}

// A8.2: a question to the cluster that gets no answer has a row on the page of the
// command that asks it, and the page says how long the answer to a create is awaited.
func TestPagesKnowEachUnansweredQuestion(t *testing.T) {
	asked := regexp.MustCompile(`r\.unanswered\([^"\n]*"([^"]+)"`)
	verb := regexp.MustCompile(`%\w`)
	files, err := filepath.Glob(filepath.Join("..", "..", "preflight", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	questions := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := preflightPage
		if filepath.Base(file) == "resume.go" {
			name = resumePage
		}
		for _, question := range asked.FindAllStringSubmatch(string(source), -1) {
			questions++
			if quoted := "`" + verb.ReplaceAllString(question[1], "…") + "`"; !strings.Contains(page(t, name), quoted) {
				t.Errorf("%s does not say what to do when %q gets no answer", name, question[1])
			}
		}
	}
	if questions < 10 {
		t.Errorf("only %d questions are asked", questions)
	}
	if wait := fmt.Sprintf("%.0f s", kube.CreateWait.Seconds()); !strings.Contains(page(t, preflightPage), wait) {
		t.Errorf("%s does not say that a create is waited for %s", preflightPage, wait)
	}
}

// sourceOf returns the text of all Go files below root but the tests.
func sourceOf(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
