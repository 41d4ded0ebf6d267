package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const roleVariable = "HOLDFAST_KEEPER_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "keeper":
		runtime.LockOSThread()
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "client":
		beClient()
	default:
		os.Exit(m.Run())
	}
}

// self launches this test binary as a keeper.
func self(t *testing.T, dir string) *Client {
	t.Helper()
	t.Setenv(roleVariable, "keeper")
	c, err := Launch(executable(t), filepath.Join(dir, "keeper.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(roleVariable, "")
	return c
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// shell is a process that runs a script; its pids are appended to dir/pids.
func shell(name, dir, script string) Spec {
	return Spec{
		Name: name, Path: "/bin/sh", Args: []string{"-c", "echo $$ >>pids; " + script}, Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH")}, Log: filepath.Join(dir, name+".log"),
	}
}

// family starts a child in its group, one that has left it, and waits.
const family = "sleep 1000 & echo $! >>pids; setsid sleep 1000 & echo $! >>pids; echo up; wait"

func pids(t *testing.T, dir string, want int) (found []int) {
	t.Helper()
	eventually(t, func() error {
		text, err := os.ReadFile(filepath.Join(dir, "pids"))
		if err != nil {
			return err
		}
		found = nil
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return err
			}
			found = append(found, pid)
		}
		if len(found) != want {
			return fmt.Errorf("%d processes have started, want %d", len(found), want)
		}
		return nil
	})
	for _, pid := range found {
		if !alive(pid) {
			t.Fatalf("process %d is not there from the beginning", pid)
		}
	}
	return found
}

// alive does not count a process that has ended and that its parent, which may be a
// slow init, has not reaped yet.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("not so within 10 s: %v", err)
		case <-tick.C:
		}
	}
}

func allGone(pids []int) error {
	for _, pid := range pids {
		if alive(pid) {
			return fmt.Errorf("process %d lives", pid)
		}
	}
	return nil
}

// When Close has returned, everything is gone, whether it left its group or not, and
// no goroutine of the client is left.
func TestCloseLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	c := self(t, dir)
	if _, err := c.Start(shell("family", dir, family)); err != nil {
		t.Fatal(err)
	}
	all := pids(t, dir, 3)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := allGone(all); err != nil {
		t.Error(err)
	}
	if _, err := c.Start(shell("late", dir, "true")); !errors.Is(err, ErrGone) {
		t.Errorf("starting after Close gives %v", err)
	}
}

// A client that is killed takes everything with it.
func TestKilledClientTakesAllWithIt(t *testing.T) {
	dir := t.TempDir()
	client := exec.CommandContext(t.Context(), executable(t))
	client.Env, client.Dir, client.Stderr = append(os.Environ(), roleVariable+"=client"), dir, os.Stderr
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	keeperPID, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	all := append(pids(t, dir, 3), keeperPID)
	if err := client.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = client.Wait()
	eventually(t, func() error { return allGone(all) })
}

func beClient() {
	executable, err := os.Executable()
	if err == nil {
		err = os.Setenv(roleVariable, "keeper")
	}
	var c *Client
	if err == nil {
		c, err = Launch(executable, "keeper.log")
	}
	if err == nil {
		_, err = c.Start(shell("family", ".", family))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.cmd.Process.Pid)
	<-c.done
}

// A keeper that is killed is the one case for the parent-death signal.
func TestKilledKeeperTakesItsChildrenWithIt(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a parent-death signal")
	}
	dir := t.TempDir()
	c := self(t, dir)
	p, err := c.Start(shell("child", dir, "exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	all := pids(t, dir, 1)
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return allGone(all) })
	<-p.Exited()
	if p.State() != ErrGone.Error() {
		t.Errorf("the process is said to have ended by %q", p.State())
	}
	if err := c.Stop("child", 0); err == nil {
		t.Error("a dead keeper stops processes")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestStopAsksFirst(t *testing.T) {
	dir := t.TempDir()
	c := self(t, dir)
	defer c.Close()
	polite, err := c.Start(shell("polite", dir, "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"))
	if err != nil {
		t.Fatal(err)
	}
	deaf, err := c.Start(shell("deaf", dir, "trap '' TERM; echo up; while :; do sleep 0.01; done"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"polite", "deaf"} {
		eventually(t, func() error { return logHas(dir, name, "up") })
	}
	if err := c.Stop("polite", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop("deaf", 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	<-polite.Exited()
	<-deaf.Exited()
	if polite.State() != "exit status 7" || deaf.State() != "signal: killed" {
		t.Errorf("they ended by %q and %q", polite.State(), deaf.State())
	}
	if err := logHas(dir, "polite", "bye"); err != nil {
		t.Error(err)
	}
}

func logHas(dir, name, want string) error {
	text, err := os.ReadFile(filepath.Join(dir, name+".log"))
	if err == nil && !strings.Contains(string(text), want) {
		err = fmt.Errorf("the log of %s is %q", name, text)
	}
	return err
}

func TestNamesAndFailures(t *testing.T) {
	dir := t.TempDir()
	c := self(t, dir)
	defer c.Close()
	first, err := c.Start(shell("one", dir, "exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(shell("one", dir, "true")); err == nil || !strings.Contains(err.Error(), strconv.Itoa(first.PID)) {
		t.Errorf("a second process of one name gives %v", err)
	}
	if err := c.Stop("one", 0); err != nil {
		t.Fatal(err)
	}
	again, err := c.Start(shell("one", dir, "exit 3"))
	if err != nil {
		t.Fatalf("a name whose process has ended may not be used again: %v", err)
	}
	<-again.Exited()
	if again.State() != "exit status 3" {
		t.Errorf("it ended by %q", again.State())
	}
	if err := c.Stop("one", 0); err != nil {
		t.Errorf("stopping an ended process gives %v", err)
	}
	missing := shell("missing", dir, "")
	missing.Path = filepath.Join(dir, "nothing")
	if _, err := c.Start(missing); err == nil {
		t.Error("a program that is not there was started")
	}
	if err := c.Stop("never", 0); err == nil {
		t.Error("a process that was never started was stopped")
	}
}
