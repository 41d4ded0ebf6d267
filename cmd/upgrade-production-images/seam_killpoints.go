//go:build holdfast_killpoints

package main

import (
	"io/fs"
	"path/filepath"

	"github.com/holdfast-project/holdfast/internal/durable"
)

// The seam with every operation counted that changes the evidence or makes it
// durable. What only reads passes.

type faultFS struct {
	durable.FS
	faults *faults
}

func (f faultFS) Open(path string) (durable.Dir, error) {
	dir, err := f.FS.Open(path)
	return f.faults.dir(dir, err)
}

func (f *faults) dir(dir durable.Dir, err error) (durable.Dir, error) {
	if err != nil {
		return nil, err
	}
	return faultDir{dir, f}, nil
}

func (f *faults) file(file durable.File, path string, err error) (durable.File, error) {
	if err != nil {
		return nil, err
	}
	return faultFile{file, f, path}, nil
}

type faultDir struct {
	durable.Dir
	faults *faults
}

func (d faultDir) path(name string) string { return filepath.Join(d.Path(), name) }

func (d faultDir) MakeDir(name string) (made durable.Dir, err error) {
	err = d.faults.around("mkdir", d.path(name), func() error { made, err = d.Dir.MakeDir(name); return err })
	return d.faults.dir(made, err)
}

func (d faultDir) OpenDir(name string) (durable.Dir, error) {
	dir, err := d.Dir.OpenDir(name)
	return d.faults.dir(dir, err)
}

func (d faultDir) Create(name string, perm fs.FileMode) (made durable.File, err error) {
	err = d.faults.around("create", d.path(name), func() error { made, err = d.Dir.Create(name, perm); return err })
	return d.faults.file(made, d.path(name), err)
}

func (d faultDir) Open(name string) (durable.File, error) {
	file, err := d.Dir.Open(name)
	return d.faults.file(file, d.path(name), err)
}

func (d faultDir) Link(old, new string) error {
	return d.faults.around("link", d.path(new), func() error { return d.Dir.Link(old, new) })
}

func (d faultDir) Rename(old, new string) error {
	return d.faults.around("rename", d.path(new), func() error { return d.Dir.Rename(old, new) })
}

func (d faultDir) Remove(name string) error {
	return d.faults.around("remove", d.path(name), func() error { return d.Dir.Remove(name) })
}

func (d faultDir) Sync() error { return d.faults.around("fsync", d.Path(), d.Dir.Sync) }

type faultFile struct {
	durable.File
	faults *faults
	path   string
}

func (f faultFile) Write(p []byte) (n int, err error) {
	err = f.faults.around("write", f.path, func() error { n, err = f.File.Write(p); return err })
	return n, err
}

func (f faultFile) Sync() error { return f.faults.around("fsync", f.path, f.File.Sync) }

// Close gives the descriptor up even where it reports a failure, as close(2) does.
func (f faultFile) Close() error {
	err := f.faults.begin("close", f.path)
	if closed := f.File.Close(); err == nil {
		err = closed
	}
	return err
}
