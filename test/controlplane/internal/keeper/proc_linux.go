package keeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const prSetChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER, prctl(2)

// adoptOrphans makes this process the parent of every descendant whose own parent
// dies. So a grandchild that left its process group is still found in the end.
func adoptOrphans() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return errno
	}
	return nil
}

// attributes puts a child into a group of its own (signals of the terminal do not
// reach it, and one signal reaches all of it) and has it killed when the forking
// thread ends, which is when the keeper does.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killOrphans kills and reaps until this process has no child left. Killing a
// parent hands its children to us, hence the loop.
func killOrphans() error {
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		for _, pid := range childrenOf(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.ECHILD) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("processes %v do not end", childrenOf(os.Getpid()))
}

// childrenOf reads /proc/*/stat rather than /proc/self/task/*/children, which not
// every kernel has.
func childrenOf(parent int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var pids []int
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it ended in the meantime
		}
		// "pid (command) state ppid …"; the command may hold anything, so the
		// fields are counted from its last parenthesis.
		after := string(text[strings.LastIndexByte(string(text), ')')+1:])
		fields := strings.Fields(after)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
