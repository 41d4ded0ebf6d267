//go:build unix && !linux

package podrunner

import "syscall"

// attributes puts a program into a group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
