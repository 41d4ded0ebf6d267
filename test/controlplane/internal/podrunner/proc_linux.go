package podrunner

import "syscall"

// attributes puts a program into a group of its own, and has it killed with the
// runner: when the thread that started it ends, see Runner.Run.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
