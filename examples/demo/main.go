// Command demo is the program of the example chart's image: an API, a worker
// and a migration that do nothing but read their credentials and say so. It
// owns no state and must not import any package of Holdfast: it stands for
// somebody else's image.
//
//	demo api|worker            run until SIGTERM
//	demo api|worker --check    prove a start and end
//	demo migration             migrate and end
//	demo <any> --identity      say which program this is and end, without credentials
//
// DEMO_BEHAVIOUR makes it misbehave: "hang" ignores everything but SIGKILL,
// "fail" ends with exit code 1, "print-secret" prints the credentials.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// version is what --identity names.
const version = "1.0.0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// credentials are what the chart's Secret holds.
type credentials struct{ databaseURL, token string }

func run(ctx context.Context, args []string, env func(string) string, out io.Writer) error {
	component, mode := split(args)
	if component != "api" && component != "worker" && component != "migration" {
		return fmt.Errorf("usage: demo api|worker|migration [--check|--identity], not %q", args)
	}
	if mode == "--identity" {
		_, err := fmt.Fprintf(out, "demo %s %s\n", component, version)
		return err
	}
	secret, err := read(env)
	if err != nil {
		return err
	}
	if err := misbehave(env("DEMO_BEHAVIOUR"), secret, out); err != nil {
		return err
	}
	switch {
	case component == "migration":
		_, err = fmt.Fprintf(out, "migration of %s done\n", env("DEMO_RELEASE"))
		return err
	case mode == "--check":
		_, err = fmt.Fprintf(out, "%s of %s can start\n", component, env("DEMO_RELEASE"))
		return err
	}
	if _, err := fmt.Fprintf(out, "%s of %s is running\n", component, env("DEMO_RELEASE")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func split(args []string) (component, mode string) {
	if len(args) > 0 {
		component = args[0]
	}
	if len(args) > 1 {
		mode = args[1]
	}
	return component, mode
}

// read takes one credential from the environment and one from a file. The file
// is below HOLDFAST_POD_ROOT where a Pod's mounts are there and not at the
// root, which is so when this program runs without a container.
func read(env func(string) string) (credentials, error) {
	url := env("DEMO_DATABASE_URL")
	if url == "" {
		return credentials{}, errors.New("DEMO_DATABASE_URL is empty")
	}
	path := filepath.Join(env("HOLDFAST_POD_ROOT"), env("DEMO_TOKEN_FILE"))
	token, err := os.ReadFile(path)
	if err != nil {
		return credentials{}, fmt.Errorf("reading the token: %w", err)
	}
	if strings.TrimSpace(string(token)) == "" {
		return credentials{}, fmt.Errorf("reading the token: %s is empty", path)
	}
	return credentials{databaseURL: url, token: strings.TrimSpace(string(token))}, nil
}

func misbehave(behaviour string, secret credentials, out io.Writer) error {
	switch behaviour {
	case "":
		return nil
	case "hang":
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
		select {}
	case "fail":
		return errors.New("told to fail")
	case "print-secret":
		_, err := fmt.Fprintf(out, "database %s\ntoken %s\n", secret.databaseURL, secret.token)
		return err
	default:
		return fmt.Errorf("DEMO_BEHAVIOUR %q is not known", behaviour)
	}
}
