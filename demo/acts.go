package main

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/holdfast-project/holdfast/test/apiproxy"
)

func success(ctx context.Context, s *stage) error {
	s.say("1. A preflight to success")
	code, err := s.preflight(ctx, filepath.Join(s.dir, "evidence-1"), func(*exec.Cmd) {})
	if err != nil {
		return err
	}
	if err := expect("the preflight", code, 0); err != nil {
		return err
	}
	return s.show(ctx, nil)
}

// killedBetweenSteps kills the command when the api Job is created, recorded and
// about to be released: everything that exists has its receipt.
func killedBetweenSteps(ctx context.Context, s *stage) error {
	s.say("2. Killed with SIGKILL after some creates")
	evidence := filepath.Join(s.dir, "evidence-2")
	victim := &victim{}
	s.proxy.Hook(apiproxy.Hooks{Before: func(x apiproxy.Exchange) apiproxy.Action {
		return victim.kill(x.Method == http.MethodPatch && strings.Contains(x.Path, "-preflight-api-"))
	}})
	code, err := s.preflight(ctx, evidence, victim.aim)
	s.proxy.Hook(apiproxy.Hooks{})
	if err != nil {
		return err
	}
	if err := expect("the killed preflight", code, -1); err != nil {
		return err
	}
	if err := s.show(ctx, map[string]int{"Job": 2, "Pod": 1, "Secret": 1, "NetworkPolicy": 1}); err != nil {
		return err
	}
	if err := s.disk(evidence); err != nil {
		return err
	}
	s.note("cleanup, with the operator's two attestations:")
	if code, err = s.cleanup(ctx, evidence); err != nil {
		return err
	}
	if err := expect("cleanup", code, 0); err != nil {
		return err
	}
	return s.show(ctx, nil)
}

// killedBeforeTheReceipt kills the command when the API server has created the
// api Job and the answer has not reached it.
func killedBeforeTheReceipt(ctx context.Context, s *stage) error {
	s.say("3. Killed between a create and its receipt")
	evidence := filepath.Join(s.dir, "evidence-3")
	victim := &victim{}
	s.proxy.Hook(apiproxy.Hooks{After: func(x apiproxy.Exchange) apiproxy.Action {
		return victim.kill(x.Method == http.MethodPost && !x.DryRun() && x.Code == http.StatusCreated &&
			strings.HasSuffix(x.Path, "/jobs") && strings.Contains(string(x.Body), "-preflight-api-"))
	}})
	code, err := s.preflight(ctx, evidence, victim.aim)
	s.proxy.Hook(apiproxy.Hooks{})
	if err != nil {
		return err
	}
	if err := expect("the killed preflight", code, -1); err != nil {
		return err
	}
	s.note("cleanup removes what is proven, and keeps what the unproven Job might use:")
	if code, err = s.cleanup(ctx, evidence); err != nil {
		return err
	}
	if err := expect("cleanup", code, 1); err != nil {
		return err
	}
	return s.show(ctx, map[string]int{"Job": 1, "Secret": 1, "NetworkPolicy": 1})
}

// victim is the process to be killed at an instant that only the proxy sees.
type victim struct{ cmd atomic.Pointer[exec.Cmd] }

func (v *victim) aim(cmd *exec.Cmd) { v.cmd.Store(cmd) }

// kill sends SIGKILL and cuts the connection when now is true.
func (v *victim) kill(now bool) apiproxy.Action {
	cmd := v.cmd.Load()
	if !now || cmd == nil {
		return apiproxy.Action{}
	}
	_ = cmd.Process.Kill()
	return apiproxy.Action{Drop: true}
}

func expect(who string, code, want int) error {
	if code == want {
		return nil
	}
	return fmt.Errorf("%s ended with exit code %d, and the story has %d (-1 is SIGKILL)", who, code, want)
}
