//go:build unix && !linux

package keeper

import "syscall"

// Without Linux there is neither a parent-death signal nor a reaper of orphans.
// The pipe still ends everything when the client dies; what is not covered is a
// kill -9 of the keeper and a grandchild that leaves its process group.

func adoptOrphans() error { return nil }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killOrphans() error { return nil }
