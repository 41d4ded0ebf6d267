// Command keeper starts and stops the processes of a control plane for the program
// at the other end of its stdin, and ends all of them when stdin ends. See package
// internal/keeper for the promise it keeps; it is started by package controlplane
// and is of no use by hand.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/holdfast-project/holdfast/test/controlplane/internal/keeper"
)

// main keeps the thread it runs on until the process ends: the children's
// parent-death signal is sent when the thread that forked them ends, and any other
// thread may end while the process lives on.
func main() {
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	remove := flag.String("remove", "", "directory to remove when all processes have ended")
	flag.Parse()
	err := keeper.Serve(ctx, os.Stdin, os.Stdout)
	stop()
	if *remove != "" {
		// Here and not only in the client: a client that was killed removes nothing.
		err = errors.Join(err, os.RemoveAll(*remove))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
}
