package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// ErrGone is returned when the keeper process has ended, and with it everything it
// had started.
var ErrGone = errors.New("the keeper process has ended")

// Client is the parent's side of one keeper process. Its methods may be called from
// any goroutine.
type Client struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{} // closed when the keeper has been reaped

	mu      sync.Mutex
	nextID  int
	waiting map[int]chan reply
	running map[int]*Process // by the ID of the request that started it
}

// Process is one process that a keeper runs.
type Process struct {
	Name string
	PID  int

	exited chan struct{}
	state  string // set before exited is closed
}

// Exited is closed when the process has ended and been reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// State says how the process ended; it may be called only after Exited is closed.
func (p *Process) State() string { return p.state }

// Launch starts the keeper at path with args. Its own messages go to the file log.
//
// Nothing of the caller's stdout or stderr is handed down: `go test` waits for all
// holders of those, so a child that held them would keep it from ending.
func Launch(path, log string, args ...string) (*Client, error) {
	logFile, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the keeper's log: %w", err)
	}
	defer func() { _ = logFile.Close() }() // the keeper has its own
	cmd := exec.Command(path, args...)
	cmd.Stderr = logFile
	// A session of its own: Ctrl-C in the terminal is for the parent to act on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making the keeper's pipe: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("making the keeper's pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the keeper %s: %w", path, err)
	}
	c := &Client{
		cmd: cmd, in: in, done: make(chan struct{}),
		waiting: map[int]chan reply{}, running: map[int]*Process{},
	}
	go c.listen(out)
	return c, nil
}

// listen is the only reader and the only one to call Wait.
func (c *Client) listen(out io.Reader) {
	lines := json.NewDecoder(out)
	for {
		var r reply
		if err := lines.Decode(&r); err != nil {
			break
		}
		c.deliver(r)
	}
	_ = c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, w := range c.waiting {
		close(w)
		delete(c.waiting, id)
	}
	for id, p := range c.running {
		c.ended(id, p, ErrGone.Error())
	}
	close(c.done)
}

func (c *Client) deliver(r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Exit != nil {
		if p := c.running[r.Exit.Start]; p != nil {
			c.ended(r.Exit.Start, p, r.Exit.State)
		}
		return
	}
	if r.Error != "" {
		delete(c.running, r.ID) // nothing was started
	}
	if w := c.waiting[r.ID]; w != nil {
		delete(c.waiting, r.ID)
		w <- r
	}
}

// ended must be called with mu held.
func (c *Client) ended(id int, p *Process, state string) {
	p.state = state
	close(p.exited)
	delete(c.running, id)
}

// call sends one request and waits for its answer. The process p, if any, is known
// before the request is sent: the news of its end may overtake the answer.
func (c *Client) call(r request, p *Process) (reply, error) {
	answer := make(chan reply, 1)
	c.mu.Lock()
	select {
	case <-c.done:
		c.mu.Unlock()
		return reply{}, ErrGone
	default:
	}
	c.nextID++
	r.ID = c.nextID
	c.waiting[r.ID] = answer
	if p != nil {
		c.running[r.ID] = p
	}
	err := json.NewEncoder(c.in).Encode(r)
	if err != nil {
		delete(c.waiting, r.ID)
		delete(c.running, r.ID)
	}
	c.mu.Unlock()
	if err != nil {
		return reply{}, fmt.Errorf("asking the keeper: %w", err)
	}
	a, ok := <-answer
	switch {
	case !ok:
		return reply{}, ErrGone
	case a.Error != "":
		return reply{}, errors.New(a.Error)
	}
	return a, nil
}

// Start starts a process.
func (c *Client) Start(spec Spec) (*Process, error) {
	p := &Process{Name: spec.Name, exited: make(chan struct{})}
	a, err := c.call(request{Start: &spec}, p)
	if err != nil {
		return nil, err
	}
	p.PID = a.PID
	return p, nil
}

// Stop ends a process: SIGTERM, after grace SIGKILL; with no grace SIGKILL at once.
// It returns when the process is gone. Stopping an ended process is no error.
func (c *Client) Stop(name string, grace time.Duration) error {
	_, err := c.call(request{Stop: name, Grace: grace}, nil)
	return err
}

// Close ends the keeper and everything it started, and returns when all is gone.
func (c *Client) Close() error {
	c.mu.Lock()
	err := c.in.Close()
	c.mu.Unlock()
	<-c.done
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("closing the keeper's pipe: %w", err)
	}
	return nil
}
