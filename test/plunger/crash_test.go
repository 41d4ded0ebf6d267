package plunger

import (
	"context"
	"fmt"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// B4.4, B10.1: SIGKILL after each write, its answer lost, with and without a
// delete while nobody is there: the next flux-plunger takes it up.
func TestKilledAfterEachWrite(t *testing.T) {
	for _, strategy := range []string{repair, reclaim} {
		writes, _ := bars(strategy)
		for n := 1; n <= writes; n++ {
			for _, deleted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/deleted=%t", strategy, n, deleted), func(t *testing.T) {
					t.Parallel()
					shared.killedAfter(t, strategy, n, deleted)
				})
			}
		}
	}
}

func (b *bench) killedAfter(t *testing.T, strategy string, n int, deleted bool) {
	namespace := fmt.Sprintf("kill-%s-%d-%t", strategy, n, deleted)
	key := b.Releases(t, namespace, 1)[0]
	p := b.start(t, setup{strategy: strategy, namespace: namespace})
	seen := &answers{}
	p.proxy.Hook(p.dieAfter(n, seen))
	b.stick(t, key, lab.Damage{})
	b.untilDead(t, p, key)

	wasFenced := true
	if deleted {
		hr, err := b.DeleteSeen(t.Context(), key)
		must(t, err)
		wasFenced = plungertest.Fenced(hr)
	}
	b.start(t, setup{strategy: strategy, namespace: namespace, hooks: seen.hooks()})
	if !deleted {
		b.Await(t, key, plungertest.Recovered)
		if left := b.remains(t, key); len(left.Chart) != 4 || len(left.Storage) == 0 {
			t.Errorf("taken up, left %+v", left)
		}
		return
	}
	left := b.gone(t, key)
	switch {
	case left.Clean():
	case strategy == reclaim && deletedSecret(seen.all(), key.Name):
		b.Told(t, key, "Warning UninstallUnproven")
	default:
		t.Errorf("killed after write %d, deleted (fenced %t), left %+v; events %v", n, wasFenced, left, b.Said(t, key))
	}
}

// dieAfter kills the process when its n-th write was carried out, and loses the
// answer.
func (p *process) dieAfter(n int, seen *answers) apiproxy.Hooks {
	count := newCounter()
	return apiproxy.Hooks{After: func(x apiproxy.Exchange) apiproxy.Action {
		seen.after(x)
		if !writes(x) || count.next("all") != n {
			return apiproxy.Action{}
		}
		_ = p.cmd.Process.Kill()
		return apiproxy.Action{Drop: true}
	}}
}

// untilDead waits for the kill, or, when a recovery needs fewer writes, for its
// end: then there is nothing after the n-th write to prove.
func (b *bench) untilDead(t *testing.T, p *process, key types.NamespacedName) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-p.done
		cancel()
	}()
	_, err := b.Until(ctx, key, plungertest.Settle, func(hr *helmv2.HelmRelease) bool { return plungertest.Recovered(hr) && hr.Generation > 1 })
	if ctx.Err() == nil {
		must(t, err)
	}
	p.kill()
}
