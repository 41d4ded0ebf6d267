package unfence

import (
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

func owned(manager, operation string) decide.ManagedField {
	return decide.ManagedField{Manager: manager, Operation: operation, Fields: []byte(`{"f:spec":{"f:suspend":{}}}`)}
}

func release(suspend bool, finalizers []string, managers ...decide.ManagedField) decide.Release {
	r := decide.Release{Namespace: "ns", Name: "hr", Finalizers: finalizers, Managers: managers}
	if suspend {
		r.Spec.Suspend = &suspend
	}
	return r
}

// B7.3: our own suspension goes first, then the copies of the fence from the
// highest index down; what another manager holds, alone or with us, stays, and of the
// latter our claim goes (B2.2).
func TestStepOf(t *testing.T) {
	ours, update := owned("flux-plunger", "Apply"), owned("flux-plunger", "Update")
	another := owned("kubectl", "Apply")
	fence, other := contract.Fence, "other.example/hold"
	for name, c := range map[string]struct {
		release decide.Release
		want    step
	}{
		"nothing of ours":                       {release(false, []string{other}), done},
		"no finalizer at all":                   {release(false, nil), done},
		"one fence":                             {release(false, []string{fence}), 0},
		"the fence among others":                {release(false, []string{other, fence, other}), 1},
		"of two copies the last":                {release(false, []string{fence, other, fence, other}), 2},
		"our suspension before the fence":       {release(true, []string{fence}, ours), lift},
		"our suspension without a fence":        {release(true, nil, ours), lift},
		"our share of a suspension":             {release(true, []string{fence}, ours, another), yield},
		"our share without a fence":             {release(true, nil, ours, another), yield},
		"a foreign suspension stays":            {release(true, []string{fence}, another), 0},
		"ours by Update is not ours (B2.1)":     {release(true, []string{fence}, update), 0},
		"nobody is recorded as its owner":       {release(true, []string{fence}), 0},
		"a foreign suspension alone is nothing": {release(true, nil, another), done},
		"our claim on a false one":              {release(false, []string{fence}, ours), 0},
	} {
		if got := stepOf(c.release); got != c.want {
			t.Errorf("B7.3 %s: the next step is %d, want %d", name, got, c.want)
		}
		if got := Carries(c.release); got != (c.want != done) {
			t.Errorf("B7.2 %s: Carries is %t", name, got)
		}
	}
	terminating := release(true, []string{fence}, ours)
	terminating.DeletionTimestamp = time.Unix(1, 0)
	if stepOf(terminating) != lift {
		t.Error("B7.2: the suspension of a terminating release is not lifted")
	}
}
