package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

const (
	// tenant is where the HelmReleases live; system is the namespace that the
	// shipped permissions name.
	tenant = "tenant"
	system = "flux-system"
	// patience bounds a wait for something that takes a second or two.
	patience = 2 * time.Minute
)

// deletedWithoutFence and deletedInTheMiddle show flux-plunger: the same stuck
// release, deleted once with nobody around and once in the middle of a recovery.
func deletedWithoutFence(ctx context.Context, s *stage) error {
	s.say("4. A HelmRelease stuck with \"has no deployed releases\", deleted without a fence")
	return s.withReleases(ctx, func(l *lab.Lab) error {
		key := types.NamespacedName{Namespace: tenant, Name: "unfenced"}
		if err := s.stuck(ctx, l, key); err != nil {
			return err
		}
		left, err := s.deleted(ctx, l, key, func() error { return l.Delete(ctx, key) })
		if err != nil {
			return err
		}
		if !left.Orphaned() {
			return errors.New("the release deleted without a fence left nothing behind, and the story has it orphaned")
		}
		s.note("helm-controller had forgotten what it had installed: the object is gone, its resources are orphaned.")
		return nil
	})
}

func deletedInTheMiddle(ctx context.Context, s *stage) error {
	s.say("5. The same, with flux-plunger, deleted in the middle of the recovery")
	return s.withReleases(ctx, func(l *lab.Lab) error {
		key := types.NamespacedName{Namespace: tenant, Name: "fenced"}
		if err := s.stuck(ctx, l, key); err != nil {
			return err
		}
		left, err := s.deleted(ctx, l, key, func() error { return s.recoverAndDelete(ctx, l, key) })
		if err != nil {
			return err
		}
		if !left.Clean() {
			return fmt.Errorf("the release deleted in the middle left %+v, and the story has nothing left", left)
		}
		s.note("the fence held the object until helm-controller had really uninstalled it: nothing is left.")
		return nil
	})
}

// withReleases runs an act beside a helm-controller: the tests' stand-in, which
// installs, upgrades and uninstalls with Helm's SDK and lets go as the real one
// does, or the binary that HELM_CONTROLLER names.
func (s *stage) withReleases(ctx context.Context, act func(*lab.Lab) error) (err error) {
	l, err := lab.New(ctx, s.cp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := errors.Join(l.Namespace(ctx, tenant), l.Namespace(ctx, system), l.Publish(ctx, tenant, lab.Source, lab.Chart{}),
		s.cp.ApplyFiles(ctx, filepath.Join("config", "rbac", "flux-plunger-repair.yaml"))); err != nil {
		return err
	}
	if err := l.StartHelmController(ctx, helmcontroller.Options{}); err != nil {
		return err
	}
	return act(l)
}

// stuck installs a release and leaves it as an interrupted uninstall does.
func (s *stage) stuck(ctx context.Context, l *lab.Lab, key types.NamespacedName) error {
	if err := l.Install(ctx, []types.NamespacedName{key}); err != nil {
		return err
	}
	if err := l.Stick(ctx, key, lab.Damage{}); err != nil {
		return err
	}
	release, err := l.Release(ctx, key)
	if err != nil {
		return err
	}
	s.note("%s", lab.Describe(release))
	return nil
}

// deleted has the release deleted and says what it left behind.
func (s *stage) deleted(ctx context.Context, l *lab.Lab, key types.NamespacedName, remove func() error) (lab.Remains, error) {
	if err := remove(); err != nil {
		return lab.Remains{}, err
	}
	if err := l.Gone(ctx, key, patience); err != nil {
		return lab.Remains{}, err
	}
	left, err := l.Remains(ctx, lab.NewRelease(key))
	if err != nil {
		return lab.Remains{}, err
	}
	s.note("left of the chart: %s; left in Helm's storage: %s", some(left.Chart), some(left.Storage))
	return left, nil
}

func some(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// recoverAndDelete runs flux-plunger under the permissions that it ships, and
// deletes the release when flux-plunger's rewrite of the storage is on its way:
// the fence stands, and nothing has been recovered yet.
func (s *stage) recoverAndDelete(ctx context.Context, l *lab.Lab, key types.NamespacedName) error {
	var once sync.Once
	deleted := make(chan error, 1)
	s.proxy.Hook(apiproxy.Hooks{Before: func(x apiproxy.Exchange) apiproxy.Action {
		if x.Method == http.MethodPut && strings.Contains(x.Path, "/secrets/") {
			once.Do(func() { deleted <- l.Delete(ctx, key) })
		}
		return apiproxy.Action{}
	}})
	defer s.proxy.Hook(apiproxy.Hooks{})
	stop, err := s.startPlunger(ctx)
	if err != nil {
		return err
	}
	select {
	case err = <-deleted:
	case <-time.After(patience):
		err = errors.New("flux-plunger did not begin to recover the release")
	}
	if err == nil {
		s.note("deleted while flux-plunger was rewriting the stored status")
		err = l.Gone(ctx, key, patience)
	}
	return errors.Join(err, stop())
}

// startPlunger starts flux-plunger; stop ends it and waits for its drain.
func (s *stage) startPlunger(ctx context.Context) (stop func() error, err error) {
	direct, err := s.cp.KubeconfigFor(ctx, system, "flux-plunger")
	if err != nil {
		return nil, err
	}
	kubeconfig, err := s.proxy.Kubeconfig(direct)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, "plunger.kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return nil, fmt.Errorf("writing flux-plunger's kubeconfig: %w", err)
	}
	cmd := command(ctx, filepath.Join("bin", "flux-plunger"), "--strategy=repair", "--metrics-addr=0", "--health-addr=0")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+path, "RUNTIME_NAMESPACE="+system)
	log, err := os.Create(filepath.Join(s.dir, "plunger.log"))
	if err != nil {
		return nil, fmt.Errorf("keeping flux-plunger's log: %w", err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting flux-plunger: %w", err)
	}
	return func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		return errors.Join(cmd.Wait(), log.Close())
	}, nil
}
