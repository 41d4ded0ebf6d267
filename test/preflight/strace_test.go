package preflight

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stateChanging are the system calls that change a file system, by what the seam
// calls them. An open does so only when it creates.
func stateChanging() map[string]string {
	kinds := map[string]string{}
	for kind, calls := range map[string]string{
		"mkdir": "mkdir mkdirat", "create": "open openat openat2 creat", "write": "write writev pwrite64 pwritev pwritev2",
		"fsync": "fsync fdatasync", "link": "link linkat", "rename": "rename renameat renameat2", "remove": "unlink unlinkat rmdir",
		"other": "truncate ftruncate fallocate chmod fchmod fchmodat chown fchown fchownat lchown symlink symlinkat mknod mknodat " +
			"utimensat setxattr fsetxattr lsetxattr removexattr sendfile splice copy_file_range sync_file_range syncfs mount",
	} {
		for _, call := range strings.Fields(calls) {
			kinds[call] = kind
		}
	}
	return kinds
}

// A2.1, A2.4: the seam, at which faults are injected, sees every system call that
// changes the evidence: the kernel counts as many, of the same kinds. The test
// needs strace to ask it.
func TestSeamSeesEverySystemCall(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("without strace nobody counts what the kernel is asked")
	}
	t.Parallel()
	s := newSite(t)
	s.binary = strace
	trace, calls := filepath.Join(s.dir, "trace"), filepath.Join(s.dir, "strace")
	var names []string
	for call := range stateChanging() {
		names = append(names, "?"+call)
	}
	args := append([]string{"-f", "-y", "-qq", "-s", "200", "-o", calls, "-e", "trace=" + strings.Join(names, ","), world.killable}, s.preflightArgs()...)
	e := s.wait(s.start([]string{"HOLDFAST_TRACE=" + trace}, args...))
	if strings.Contains(e.stderr, "ptrace") {
		t.Skipf("strace may not trace here: %s", e.stderr)
	}
	s.expect(e, 0)
	seam, kernel := s.seamCounts(trace), s.kernelCounts(calls)
	if fmt.Sprint(seam) != fmt.Sprint(kernel) || seam["fsync"] < 100 || seam["write"] < 1000 {
		t.Errorf("the seam has seen %v, the kernel %v", seam, kernel)
	}
	t.Logf("%v", kernel)
}

// seamCounts counts the operations on the evidence by kind. A close changes
// nothing that another process could see.
func (s *site) seamCounts(trace string) map[string]int {
	s.t.Helper()
	content, err := os.ReadFile(trace)
	s.must(err)
	counts := map[string]int{}
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if words[1] != "close" && s.inEvidence(words[2]) {
			counts[words[1]]++
		}
	}
	return counts
}

var tracedCall = regexp.MustCompile(`^\d+ +([a-z0-9_]+)\((?:AT_FDCWD|\d+)?(?:<([^>]*)>)?(?:, )?(?:"([^"]*)")?(.*)`)

func (s *site) kernelCounts(file string) map[string]int {
	s.t.Helper()
	content, err := os.ReadFile(file)
	s.must(err)
	counts, kinds := map[string]int{}, stateChanging()
	for line := range strings.Lines(string(content)) {
		found := tracedCall.FindStringSubmatch(line)
		if found == nil {
			continue // the second half of a call that another thread's interrupted
		}
		kind, path := kinds[found[1]], found[2]
		switch kind {
		case "write", "fsync":
		default:
			path = filepath.Join(path, found[3])
		}
		if s.inEvidence(path) && (kind != "create" || strings.Contains(found[4], "O_CREAT")) {
			counts[kind]++
		}
	}
	return counts
}

func (s *site) inEvidence(path string) bool {
	return path == s.evidence || strings.HasPrefix(path, s.evidence+"/")
}
