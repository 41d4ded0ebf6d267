package keeper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Serve answers requests from in until in ends or ctx does, then ends every
// process that was started and returns.
//
// It must be called on a goroutine that is locked to its thread and lives as long as
// the process: the children get a parent-death signal, and that is sent when the
// thread that forked them ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	if err := adoptOrphans(); err != nil {
		return fmt.Errorf("becoming the reaper of orphans: %w", err)
	}
	// Caught, so that a write to a client that is gone is an error and not the end of
	// the keeper before that of its children. (Ignored, it would be so in them, too.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s := &server{out: json.NewEncoder(out), children: map[string]*child{}}
	requests := make(chan request)
	go read(ctx, in, requests)
	for {
		select {
		case <-ctx.Done():
			return s.end()
		case r, ok := <-requests:
			if !ok {
				return s.end()
			}
			s.handle(r)
		}
	}
}

// read decodes requests until in ends. A line that does not parse ends the
// conversation as well: guessing what a broken client wants helps nobody.
func read(ctx context.Context, in io.Reader, requests chan<- request) {
	defer close(requests)
	lines := json.NewDecoder(bufio.NewReader(in))
	for {
		var r request
		if err := lines.Decode(&r); err != nil {
			return
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return
		}
	}
}

type server struct {
	outMu sync.Mutex
	out   *json.Encoder

	mu       sync.Mutex
	children map[string]*child
	order    []*child
}

type child struct {
	id     int // of the request that started it
	spec   Spec
	cmd    *exec.Cmd
	exited chan struct{} // closed after Wait returned
}

func (s *server) handle(r request) {
	switch {
	case r.Start != nil:
		// On this goroutine and no other: see Serve.
		pid, err := s.start(r.ID, *r.Start)
		s.answer(r.ID, pid, err)
	case r.Stop != "":
		// Waiting for one process must not keep the others from being started.
		go func() { s.answer(r.ID, 0, s.stop(r.Stop, r.Grace)) }()
	default:
		s.answer(r.ID, 0, errors.New("request asks for nothing"))
	}
}

func (s *server) answer(id, pid int, err error) {
	a := reply{ID: id, PID: pid}
	if err != nil {
		a.Error = err.Error()
	}
	s.send(a)
}

// send ignores write errors: a client that is gone is noticed by the end of its
// requests, and nothing else may end the keeper.
func (s *server) send(a reply) {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	_ = s.out.Encode(a)
}

func (s *server) start(id int, spec Spec) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.children[spec.Name]; old != nil && !old.gone() {
		return 0, fmt.Errorf("starting %s: it runs already as process %d", spec.Name, old.cmd.Process.Pid)
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = spec.Env, spec.Dir, log, log
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	c := &child{id: id, spec: spec, cmd: cmd, exited: make(chan struct{})}
	s.children[spec.Name] = c
	s.order = append(s.order, c)
	go s.wait(c)
	return cmd.Process.Pid, nil
}

func (s *server) wait(c *child) {
	err := c.cmd.Wait()
	state := "exit status 0"
	if err != nil {
		state = err.Error()
	}
	// What the process left in its group goes with it, before anybody hears that
	// it ended.
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	close(c.exited)
	s.send(reply{Exit: &exit{Start: c.id, State: state}})
}

func (c *child) gone() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

func (s *server) stop(name string, grace time.Duration) error {
	s.mu.Lock()
	c := s.children[name]
	s.mu.Unlock()
	if c == nil {
		return fmt.Errorf("stopping %s: it was never started", name)
	}
	c.end(grace)
	return nil
}

// end returns when the process is gone: after SIGTERM within grace, or after SIGKILL.
func (c *child) end(grace time.Duration) {
	if grace > 0 {
		c.signal(syscall.SIGTERM)
		select {
		case <-c.exited:
			return
		case <-time.After(grace):
		}
	}
	c.signal(syscall.SIGKILL)
	<-c.exited
}

// signal reaches the whole group, and only while the process has not been reaped:
// afterwards its number may belong to somebody else.
func (c *child) signal(sig syscall.Signal) {
	if !c.gone() {
		_ = syscall.Kill(-c.cmd.Process.Pid, sig)
	}
}

// end ends all children, the latest first, and then whatever they left behind.
func (s *server) end() error {
	s.mu.Lock()
	order := s.order
	s.mu.Unlock()
	for i := len(order) - 1; i >= 0; i-- {
		order[i].end(order[i].spec.Grace)
	}
	return killOrphans()
}
