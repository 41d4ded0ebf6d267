package preflight

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interrupts turns signals into two promises. Both a run and a cleanup stop
// sending at the first; a run still awaits the answer of a create in flight, and
// gives that up at the second (A4.1, A6.10).
type interrupts struct {
	// first is cancelled by the first signal, second by the second.
	first, second context.Context

	mu     sync.Mutex
	signal syscall.Signal
	stop   func()
}

// watch begins to take SIGHUP, SIGINT and SIGTERM, for the rest of the process's life.
func watch(parent context.Context) *interrupts {
	i := &interrupts{}
	var cancelFirst, cancelSecond context.CancelFunc
	i.second, cancelSecond = context.WithCancel(parent)
	i.first, cancelFirst = context.WithCancel(i.second)
	received, done := make(chan os.Signal, 4), make(chan struct{})
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		// Under nohup a closed terminal is not to end the command, and asking for
		// the signal would undo that.
		if !signal.Ignored(s) {
			signal.Notify(received, s)
		}
	}
	var idle sync.WaitGroup
	idle.Go(func() {
		cancels := []context.CancelFunc{cancelFirst, cancelSecond}
		for _, cancel := range cancels {
			select {
			case s := <-received:
				i.note(s)
				cancel()
			case <-done:
				return
			}
		}
		<-done
	})
	i.stop = func() {
		close(done)
		idle.Wait()
		cancelFirst()
		cancelSecond()
	}
	return i
}

func (i *interrupts) note(s os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if number, ok := s.(syscall.Signal); ok && i.signal == 0 {
		i.signal = number
	}
}

// code returns 128 plus the first signal's number, and false before any.
func (i *interrupts) code() (int, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return 128 + int(i.signal), i.signal != 0
}

// release ends the watch. It is called once, at the command's end. The signals are not
// given back: one that comes between a durable result and the process's end would end
// it with a code of its own (A6.10).
func (i *interrupts) release() { i.stop() }
