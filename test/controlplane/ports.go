package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// ports hands out free loopback ports.
//
// The servers open their ports themselves, so between choosing and opening there is
// a gap in which another test could choose the same. Two things close it: each port
// is locked by a file for as long as the control plane lives, and the ports lie
// below the range from which the kernel serves outgoing connections.
type ports struct {
	dir   string
	locks []*os.File
}

const (
	lowestPort  = 12000
	highestPort = 32000
)

func newPorts() (*ports, error) {
	// One directory for all users of this machine would need their consent about
	// its mode; users that do not share it are told apart by the attempt to listen.
	dir := filepath.Join(os.TempDir(), "holdfast-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of port locks: %w", err)
	}
	return &ports{dir: dir}, nil
}

// take returns a port that nobody listens on and that no other control plane of
// this user will take before release.
func (p *ports) take() (int, error) {
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		free, err := p.lock(port)
		if err != nil {
			return 0, err
		}
		if free {
			return port, nil
		}
	}
	return 0, errors.New("no free port found between 12000 and 32000")
}

func (p *ports) lock(port int) (bool, error) {
	file, err := os.OpenFile(filepath.Join(p.dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("locking port %d: %w", port, err)
	}
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil || !listens(port) {
		return false, file.Close()
	}
	p.locks = append(p.locks, file)
	return true, nil
}

func listens(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// release gives all ports back. The files stay: removing a locked file would let
// two processes lock two files of one name.
func (p *ports) release() {
	for _, file := range p.locks {
		_ = file.Close()
	}
	p.locks = nil
}
