// Package keeper runs processes on behalf of a program that may be killed at any
// moment, and promises that none of them outlives it.
//
// It owns the processes of a control plane: a Client in the test asks a small
// keeper process to start and stop them, and holds one end of a pipe to it. When
// that pipe closes, for whatever reason (the kernel closes it even after kill -9),
// the keeper kills everything it ever started and exits. Invariant: when the
// keeper has exited, no process that it or its children started is left.
//
// It must not import anything but the standard library: it has to start in
// milliseconds and to stay up when everything else fails.
//
// Why a process and not Pdeathsig alone: on Linux the parent-death signal follows
// the THREAD that forked, and the Go runtime moves goroutines between threads and
// may end them. The keeper forks from one locked thread that lives as long as the
// process, so there Pdeathsig is sound and covers the one case that the pipe does
// not: a kill -9 of the keeper itself.
package keeper

import "time"

// Spec describes one process.
type Spec struct {
	// Name identifies the process among those of one keeper. A name may be used
	// again after its process has ended.
	Name string `json:"name"`
	// Path is the executable and Args its arguments without argv[0].
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	// Env is the whole environment.
	Env []string `json:"env,omitempty"`
	// Dir is the working directory.
	Dir string `json:"dir,omitempty"`
	// Log is the file to which stdout and stderr are appended.
	Log string `json:"log"`
	// Grace is how long the process may take to end after SIGTERM when the keeper
	// itself ends. Zero means SIGKILL at once.
	Grace time.Duration `json:"grace,omitempty"`
}

// exit says how a process ended.
type exit struct {
	// Start is the ID of the request that started it: unlike a process number it is
	// never used again.
	Start int `json:"start"`
	// State is the state in words, for messages ("exit status 1", "signal: killed").
	State string `json:"state"`
}

// request is one line from the client to the keeper.
type request struct {
	ID    int           `json:"id"`
	Start *Spec         `json:"start,omitempty"`
	Stop  string        `json:"stop,omitempty"`
	Grace time.Duration `json:"grace,omitempty"`
}

// reply is one line from the keeper to the client: an answer to the request with
// the same ID, or (ID zero) the news that a process has ended.
type reply struct {
	ID    int    `json:"id"`
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
	Exit  *exit  `json:"exit,omitempty"`
}
