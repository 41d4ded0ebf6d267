//go:build holdfast_killpoints

package main

import (
	"os"
	"strings"
	"syscall"

	"github.com/holdfast-project/holdfast/internal/durable"
)

// files kills this process with SIGKILL at one operation on the evidence, named
// by HOLDFAST_KILL as "before|after link|rename|mkdir|remove NAME". It exists
// under its build tag only, for the tests that kill a real process at each step
// of the journal: the shipped executable has no such switch.
func files() durable.FS {
	words := strings.Fields(os.Getenv("HOLDFAST_KILL"))
	if len(words) != 3 {
		return durable.OS()
	}
	return killFS{durable.OS(), killpoint{when: words[0], operation: words[1], name: words[2]}}
}

type killpoint struct{ when, operation, name string }

func (k killpoint) reach(when, operation, name string) {
	if k == (killpoint{when: when, operation: operation, name: name}) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// around carries out an operation between its two points.
func (k killpoint) around(operation, name string, do func() error) error {
	k.reach("before", operation, name)
	err := do()
	k.reach("after", operation, name)
	return err
}

type killFS struct {
	durable.FS
	at killpoint
}

func (f killFS) Open(path string) (durable.Dir, error) {
	dir, err := f.FS.Open(path)
	return wrap(dir, f.at, err)
}

func wrap(dir durable.Dir, at killpoint, err error) (durable.Dir, error) {
	if err != nil {
		return nil, err
	}
	return killDir{dir, at}, nil
}

type killDir struct {
	durable.Dir
	at killpoint
}

func (d killDir) MakeDir(name string) (made durable.Dir, err error) {
	err = d.at.around("mkdir", name, func() error { made, err = d.Dir.MakeDir(name); return err })
	return wrap(made, d.at, err)
}

func (d killDir) OpenDir(name string) (durable.Dir, error) {
	dir, err := d.Dir.OpenDir(name)
	return wrap(dir, d.at, err)
}

func (d killDir) Link(old, new string) error {
	return d.at.around("link", new, func() error { return d.Dir.Link(old, new) })
}

func (d killDir) Rename(old, new string) error {
	return d.at.around("rename", new, func() error { return d.Dir.Rename(old, new) })
}

func (d killDir) Remove(name string) error {
	return d.at.around("remove", name, func() error { return d.Dir.Remove(name) })
}
