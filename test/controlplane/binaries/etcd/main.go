// Command etcd runs one embedded etcd member for a control plane that lives as
// long as a test does.
//
// It owns nothing but its data directory. It does not fsync: a killed process
// loses nothing by that (the page cache survives it), and nobody needs the data
// after a power cut. It must not be used for anything that matters.
package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run() error {
	dir := flag.String("data-dir", "", "data directory")
	client := flag.String("client-url", "", "URL to serve clients on")
	peer := flag.String("peer-url", "", "URL to serve peers on")
	flag.Parse()

	cfg, err := config(*dir, *client, *peer)
	if err != nil {
		return err
	}
	member, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting etcd in %s: %w", *dir, err)
	}
	defer member.Close()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-stop:
		return nil
	case err := <-member.Err():
		return fmt.Errorf("serving etcd: %w", err)
	case <-member.Server.StopNotify():
		return fmt.Errorf("etcd in %s stopped by itself", *dir)
	}
}

func config(dir, client, peer string) (*embed.Config, error) {
	if dir == "" {
		return nil, fmt.Errorf("-data-dir is required")
	}
	clientURL, err := url.Parse(client)
	if err != nil {
		return nil, fmt.Errorf("parsing -client-url %q: %w", client, err)
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return nil, fmt.Errorf("parsing -peer-url %q: %w", peer, err)
	}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "warn"
	// One member elects itself, so the election timeout is only waiting. It also
	// counts in etcd's own request timeout, so it is not made tiny: a loaded
	// machine must not turn slowness into errors.
	cfg.TickMs, cfg.ElectionMs = 50, 500
	return cfg, nil
}
