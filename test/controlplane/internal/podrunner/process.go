package podrunner

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// drainTime is how long the output of a finished program may stay open: a process
// that left its group may hold it for ever.
const drainTime = time.Second

// execute runs the program to its end and records it.
func (c *container) execute(built command) int32 {
	code, started, err := c.process(built)
	if err != nil {
		c.terminated(started, exitNotStarted, err.Error())
		return exitNotStarted
	}
	c.terminated(started, code, "")
	return code
}

func (c *container) process(built command) (int32, metav1.Time, error) {
	now := metav1.Now().Rfc3339Copy()
	if built.path == "" {
		return 0, now, errNoProgram
	}
	log, err := c.newLog()
	if err != nil {
		return 0, now, err
	}
	defer log.finish()
	cmd := built.cmd()
	drain, err := attach(cmd, log)
	if err != nil {
		return 0, now, err
	}
	defer drain()
	if err := c.pod.runner.start(cmd); err != nil {
		return 0, now, err
	}
	exited := make(chan struct{})
	var escort sync.WaitGroup
	escort.Go(func() { c.escort(cmd, exited) })
	started := c.running()
	err = cmd.Wait()
	close(exited)
	escort.Wait()
	// A container ends as a whole when its first process does.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, started, err
	}
	return exitCode(cmd.ProcessState), started, nil
}

// escort passes on the Pod's end: SIGTERM to the first process, as a runtime does,
// and SIGKILL to all.
func (c *container) escort(cmd *exec.Cmd, exited <-chan struct{}) {
	select {
	case <-exited:
		return
	case <-c.pod.stopping.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-exited:
	case <-c.pod.killing.Done():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// attach gives the program pipes into the log. The pipes are made here and not by
// package exec, so that Wait does not wait for whoever still holds them. The returned
// function waits for the rest of the output.
func attach(cmd *exec.Cmd, log *logFile) (drain func(), err error) {
	var readers, writers []*os.File
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			for _, file := range append(readers, writers...) {
				_ = file.Close()
			}
			return nil, err
		}
		readers, writers = append(readers, r), append(writers, w)
	}
	cmd.Stdout, cmd.Stderr = writers[0], writers[1]
	var copying sync.WaitGroup
	for i, stream := range []string{"stdout", "stderr"} {
		copying.Go(func() { log.copy(stream, readers[i]) })
	}
	return func() {
		for _, w := range writers {
			_ = w.Close()
		}
		deadline := time.Now().Add(drainTime)
		for _, r := range readers {
			_ = r.SetReadDeadline(deadline)
		}
		copying.Wait()
		for _, r := range readers {
			_ = r.Close()
		}
	}, nil
}

// exitCode is a shell's: 128 and the signal for a program that a signal ended.
func exitCode(state *os.ProcessState) int32 {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(state.ExitCode())
}
