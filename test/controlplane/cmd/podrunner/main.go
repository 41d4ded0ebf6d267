// Command podrunner is the node on which local programs run as Pods; see package
// internal/podrunner. It is started by package controlplane.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/holdfast-project/holdfast/test/controlplane/internal/nodeconfig"
	"github.com/holdfast-project/holdfast/test/controlplane/internal/podrunner"
)

// main keeps the thread it runs on until the process ends: the programs' parent-death
// signal is sent when the thread that forked them ends.
func main() {
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "podrunner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	path := flag.String("config", "", "configuration file, written by package controlplane")
	flag.Parse()
	var cfg nodeconfig.Config
	if err := nodeconfig.Read(*path, &cfg); err != nil {
		return err
	}
	runner, err := podrunner.New(cfg)
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}
