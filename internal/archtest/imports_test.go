package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/holdfast-project/holdfast/"

// rule forbids edges from every package that from matches. A pattern is an
// import path, relative to the module when it starts with "internal/" or
// "cmd/"; "/..." at its end means the package and all below it, "..." every package.
type rule struct {
	from string
	// deps are forbidden anywhere among the package's dependencies: what the
	// linker would put into a binary with it.
	deps []string
	// direct are forbidden in the package's own import list only.
	direct []string
	why    string
}

// impure is what a decision must not touch itself: it is given what was read, and
// the time, as values. TestShapeOfTheCode sees to the clock, which is in a package
// that it needs for durations.
var impure = []string{"os", "io/fs", "net", "net/http", "log", "log/slog", "context", "k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/..."}

func rules() []rule {
	preflights := []string{"internal/evidence/...", "internal/journal/...", "internal/cleanup/...", "internal/preflight/...", "internal/render/..."}
	manager := []string{"sigs.k8s.io/controller-runtime/pkg/manager", "sigs.k8s.io/controller-runtime/pkg/cache"}
	return []rule{
		{from: "internal/evidence/...", deps: []string{"k8s.io/...", "sigs.k8s.io/...", "helm.sh/...", "net", "internal/kube"},
			why: "that nothing is sent before the evidence is accepted is proven by the linker"},
		{from: "internal/journal", deps: []string{"k8s.io/...", "sigs.k8s.io/...", "helm.sh/...", "net", "internal/kube"},
			why: "the write side of the evidence knows files, not clusters"},
		{from: "internal/durable", deps: []string{"k8s.io/...", "helm.sh/...", "net", "internal/..."},
			why: "durable publication knows no file name and no meaning"},
		{from: "internal/identity", deps: []string{"k8s.io/...", "internal/...", "net"},
			why: "everything else may import it, the pure packages too"},
		{from: "internal/strictjson", deps: []string{"k8s.io/...", "internal/...", "net"},
			why: "decoding evidence needs the standard library alone"},
		{from: "internal/apipath", deps: []string{"k8s.io/...", "net", "internal/..."},
			why: "commands are printed for people without a cluster at hand (A7.1)"},
		{from: "internal/imageindex", deps: []string{"internal/..."},
			why: "a registry is asked about names and answers with digests"},
		{from: "internal/manual", deps: []string{"k8s.io/...", "net"},
			why: "evidence is inspected offline"},
		{from: "internal/kube", deps: slices.Concat([]string{"internal/plunger/...", "internal/ui"}, manager, preflights),
			why: "the one package that writes to a cluster takes identities, not decisions"},
		{from: "internal/redact", deps: []string{"k8s.io/client-go/..."}, why: "redaction works on text"},
		{from: "internal/ui", deps: []string{"k8s.io/...", "internal/evidence/..."}, why: "what a person sees is text by then"},
		{from: "internal/cleanup/decide", deps: []string{"k8s.io/...", "internal/kube", "internal/evidence/..."}, direct: impure,
			why: "a decision is a pure function of what was read"},
		{from: "internal/preflight/decide", deps: []string{"k8s.io/client-go/...", "internal/kube", "internal/evidence/...", "internal/render/..."}, direct: impure,
			why: "a decision is a pure function of what was read"},
		{from: "internal/plunger/decide", deps: []string{"k8s.io/...", "sigs.k8s.io/controller-runtime/...", "net", "internal/kube"}, direct: impure,
			why: "a decision is a pure function of what was read, and its types are plain values"},
		{from: "internal/cleanup/...", deps: []string{"internal/preflight/...", "internal/render/...", "helm.sh/..."},
			why: "cleanup creates nothing and renders nothing"},
		{from: "internal/cleanup", deps: []string{"internal/ui"},
			why: "the engine reports through an interface"},
		{from: "internal/cleanup/advice", deps: []string{"k8s.io/...", "net", "internal/kube"},
			why: "evidence is read and reported offline too"},
		{from: "internal/preflight", direct: []string{"helm.sh/...", "internal/ui"},
			why: "the run renders through internal/render and reports through an interface"},
		{from: "internal/render", deps: []string{"internal/journal", "internal/kube", "internal/evidence/..."},
			why: "rendering reads charts and writes nowhere"},
		{from: "internal/cli/preflight", direct: []string{"k8s.io/client-go/...", "helm.sh/..."},
			why: "the command line judges arguments and picks exit codes"},
		{from: "internal/cli/plunger", direct: []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/rest"},
			why: "the command line judges arguments and wires"},
		{from: "cmd/upgrade-production-images", deps: []string{"internal/plunger/...", "internal/cli/plunger"}, direct: []string{"k8s.io/...", "helm.sh/..."},
			why: "the two commands share a core and nothing above it"},
		{from: "cmd/flux-plunger", deps: append([]string{"internal/cli/preflight"}, preflights...), why: "the two commands share a core and nothing above it"},
		{from: "internal/plunger/...", deps: preflights, why: "the two commands share a core and nothing above it"},
		{from: "internal/plunger/contract", deps: []string{"..."},
			why: "a name that objects in clusters carry depends on nothing"},
		{from: "internal/plunger/payload", deps: []string{"internal/kube"},
			why: "it works on bytes"},
		{from: "internal/plunger/gather", deps: manager,
			why: "a decision rests on live reads, never on a cache"},
		{from: "internal/plunger/write", deps: manager,
			why: "a write names what a live read returned"},
		{from: "internal/plunger/walk", deps: manager,
			why: "a write rests on a live read"},
		{from: "internal/plunger/observe", deps: manager,
			why: "an event also arrives when the manager has stopped (B6.3)"},
		{from: "internal/plunger/drain", deps: manager,
			why: "when the drain runs the manager and its caches are gone"},
		{from: "internal/plunger", deps: []string{"internal/plunger/unfence", "internal/plunger/hook"},
			why: "the controller drops a fence on proof; letting go without it is the hook's and a person's (B5.3)"},
		{from: "internal/plunger/hook", deps: manager,
			why: "what lets a release go reads it live"},
		{from: "internal/plunger/unfence", deps: manager,
			why: "what lets a release go reads it live"},
		{from: "internal/plunger/hook", deps: []string{"internal/plunger/write", "internal/plunger/drain"},
			why: "its writes to releases are those of unfence"},
		{from: "internal/plunger/unfence", deps: []string{"internal/plunger/write"},
			why: "it lets go with patches that test what they remove, and holds nothing (B7.3)"},
	}
}

// connections are the packages with which requests to a cluster could be made.
func connections() []string {
	return []string{"k8s.io/client-go/kubernetes/...", "k8s.io/client-go/dynamic/...", "k8s.io/client-go/metadata/...", "k8s.io/client-go/rest/..."}
}

// connected names who else than internal/kube imports one of them, and which.
// internal/plunger hands client-go's own lock the Lease (B6.5), and its manager the
// watch. internal/plunger/payload implements an interface for Helm's decoder, with
// no connection behind it.
func connected() map[string][]string {
	return map[string][]string{
		"internal/kube":            {"k8s.io/client-go/dynamic", "k8s.io/client-go/metadata", "k8s.io/client-go/rest"},
		"internal/plunger":         {"k8s.io/client-go/kubernetes", "k8s.io/client-go/rest"},
		"internal/plunger/payload": {"k8s.io/client-go/kubernetes/typed/core/v1"},
	}
}

// Requests to a cluster are made where their preconditions cannot be forgotten.
func TestOnlyKubeTalksToTheCluster(t *testing.T) {
	graph := load(t)
	for _, problem := range outsideKube(graph) {
		t.Error(problem)
	}
	// An exception that nobody uses would let somebody in unseen.
	for name, allowed := range connected() {
		for _, imp := range allowed {
			if !slices.Contains(graph[module+name].Imports, imp) {
				t.Errorf("%s may import %s and does not", name, imp)
			}
		}
	}
}

// It must be able to fail: for a package that may import none, and for one that may
// import another one.
func TestOnlyKubeTalksToTheClusterCanFail(t *testing.T) {
	for _, name := range []string{"internal/planted", "internal/plunger/payload"} {
		for _, pattern := range connections() {
			for _, imp := range []string{strings.TrimSuffix(pattern, "/..."), strings.Replace(pattern, "/...", "/planted", 1)} {
				graph := map[string]pkg{module + name: {Imports: []string{imp}}}
				if len(outsideKube(graph)) == 0 {
					t.Errorf("%s importing %s is not caught", name, imp)
				}
			}
		}
	}
}

func outsideKube(graph map[string]pkg) (problems []string) {
	for path, p := range graph {
		name := strings.TrimPrefix(path, module)
		if !strings.HasPrefix(name, "internal/") {
			continue
		}
		for _, imp := range forbidden(p.Imports, connections(), path) {
			if !slices.Contains(connected()[name], imp) {
				problems = append(problems, name+" imports "+imp+": requests to a cluster are made in internal/kube")
			}
		}
	}
	slices.Sort(problems)
	return problems
}

func TestImportRules(t *testing.T) {
	graph := load(t)
	for _, problem := range broken(graph, rules()) {
		t.Error(problem)
	}
	for _, r := range rules() {
		if graph[module+strings.TrimSuffix(r.from, "/...")].ImportPath == "" {
			t.Errorf("a rule is for %s, which is no package", r.from)
		}
	}
}

// A rule must be able to fail: a graph with each forbidden edge planted is
// refused, edge by edge.
func TestEveryImportRuleCanFail(t *testing.T) {
	for _, r := range rules() {
		for _, edges := range [][]string{r.deps, r.direct} {
			for _, bad := range edges {
				from := module + strings.TrimSuffix(r.from, "/...")
				target := full(strings.Replace(bad, "/...", "/planted", 1))
				graph := map[string]pkg{from: {ImportPath: from, Imports: []string{target}, Deps: []string{target}}}
				if len(broken(graph, []rule{r})) == 0 {
					t.Errorf("%s importing %s is not caught", r.from, bad)
				}
			}
		}
	}
}

func broken(graph map[string]pkg, rs []rule) (problems []string) {
	for path, p := range graph {
		for _, r := range rs {
			if !matches(module+r.from, path) {
				continue
			}
			for _, bad := range forbidden(p.Deps, r.deps, path) {
				problems = append(problems, path+" depends on "+bad+": "+r.why)
			}
			for _, bad := range forbidden(p.Imports, r.direct, path) {
				problems = append(problems, path+" imports "+bad+": "+r.why)
			}
		}
	}
	slices.Sort(problems)
	return problems
}

func forbidden(edges, patterns []string, self string) (bad []string) {
	for _, edge := range edges {
		for _, pattern := range patterns {
			if edge != self && matches(full(pattern), edge) {
				bad = append(bad, edge)
			}
		}
	}
	return bad
}

func full(pattern string) string {
	if strings.HasPrefix(pattern, "internal/") || strings.HasPrefix(pattern, "cmd/") {
		return module + pattern
	}
	return pattern
}

func matches(pattern, path string) bool {
	if root, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == root || strings.HasPrefix(path, root+"/")
	}
	return pattern == path || pattern == "..."
}

// pkg is the part of "go list -json" that the rules need.
type pkg struct {
	ImportPath, Dir, Doc, Name string
	GoFiles, Imports, Deps     []string
	TestGoFiles, XTestGoFiles  []string
}

// load lists the module's packages with what each of them links.
func load(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Doc,Name,GoFiles,Imports,Deps,TestGoFiles,XTestGoFiles", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing the module's packages: %v\n%s", err, stderr.String())
	}
	graph := map[string]pkg{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return graph
		} else if err != nil {
			t.Fatalf("decoding the package list: %v", err)
		}
		graph[p.ImportPath] = p
	}
}
