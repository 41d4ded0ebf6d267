//go:build holdfast_killpoints

package main

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/holdfast-project/holdfast/internal/durable"
)

// files makes the operations on the evidence fail, or kills this process with
// SIGKILL at one of them. It exists under its build tag only, for the tests that
// do so to a real process at each step of the journal: the shipped executable has
// no such switch. Two variables say what happens:
//
//	HOLDFAST_KILL="before|after OPERATION NAME"   killed around one named operation
//	HOLDFAST_FAULT="kill N"                        killed before the N-th operation
//	HOLDFAST_FAULT="EIO N once|on"                 the N-th fails, or all from then on
//	HOLDFAST_FAULT="short N once|on"               the kernel writes half of the N-th write
//	HOLDFAST_FAULT="torn N on"                     half, and then the disk is full
//
// The operations are those that change the evidence or make it durable: mkdir,
// create, write, fsync, close, link, rename and remove, numbered from 1. Each is
// written to the file HOLDFAST_TRACE as "N operation path" before it happens, and
// the first one that fails as "fault N operation path".
func files() durable.FS {
	f := &faults{}
	if words := strings.Fields(os.Getenv("HOLDFAST_KILL")); len(words) == 3 {
		f.named = words
	}
	if plan := os.Getenv("HOLDFAST_FAULT"); plan != "" {
		_, _ = fmt.Sscan(plan, &f.what, &f.at, &f.lasts)
	}
	if path := os.Getenv("HOLDFAST_TRACE"); path != "" {
		trace, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			panic(err)
		}
		f.trace = trace
	}
	return faultFS{durable.OSWriting(f.write), f}
}

// faults counts the operations and decides what becomes of each.
type faults struct {
	named []string
	what  string
	at    int
	lasts string
	trace *os.File

	mu    sync.Mutex
	count int
	hit   bool
	// short is how many of the kernel's next writes are cut in two; negative means
	// all of them. full lets the write after a cut one fail.
	short int
	full  bool
}

// around numbers an operation, and carries it out unless its turn has come.
func (f *faults) around(operation, path string, do func() error) error {
	if err := f.begin(operation, path); err != nil {
		return err
	}
	f.reach("before", operation, path)
	err := do()
	f.reach("after", operation, path)
	return err
}

func (f *faults) begin(operation, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	f.note(fmt.Sprintf("%d %s %s\n", f.count, operation, path))
	if f.at == 0 || f.count < f.at || f.count > f.at && f.lasts != "on" {
		return nil
	}
	switch f.what {
	case "kill":
		die()
	case "short":
		if f.short = 1; f.lasts == "on" {
			f.short = -1
		}
	case "torn":
		if f.short == 0 && operation == "write" {
			f.short, f.full = 1, true
		}
	default:
		f.failed(operation, path)
		return &fs.PathError{Op: operation, Path: path, Err: errnoOf(f.what)}
	}
	return nil
}

func errnoOf(word string) syscall.Errno {
	switch word {
	case "ENOSPC":
		return syscall.ENOSPC
	case "EDQUOT":
		return syscall.EDQUOT
	default:
		return syscall.EIO
	}
}

// failed notes the first failure, before the program hears of it.
func (f *faults) failed(operation, path string) {
	if !f.hit {
		f.hit = true
		f.note(fmt.Sprintf("fault %d %s %s\n", f.count, operation, path))
	}
}

func (f *faults) note(line string) {
	if f.trace != nil {
		_, _ = f.trace.WriteString(line)
	}
}

func (f *faults) reach(when, operation, path string) {
	if f.named != nil && f.named[0] == when && f.named[1] == operation && strings.HasSuffix(path, "/"+f.named[2]) {
		die()
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// write is the kernel's: it may write less than it was given.
func (f *faults) write(fd int, p []byte) (int, error) {
	f.mu.Lock()
	cut, full := f.short != 0 && len(p) > 1, f.full && f.short == 0
	if cut && f.short > 0 {
		f.short--
	}
	if full {
		f.failed("write", "after a torn one")
	}
	f.mu.Unlock()
	switch {
	case full:
		return -1, syscall.ENOSPC
	case cut:
		return syscall.Write(fd, p[:len(p)/2])
	default:
		return syscall.Write(fd, p)
	}
}
