// Package plungertest is what the tests that run flux-plunger on a real control
// plane share: releases to run it over, waits that show what flux-plunger said
// when they end in vain, and what it said.
//
// Its invariant: it reads the cluster as an administrator and never through
// flux-plunger, of which it knows the names alone. It must not import any package
// of flux-plunger but contract and decide.
package plungertest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// Settle bounds a wait for something that takes a second when the machine is not
// busy.
const Settle = 90 * time.Second

// poll is how often it asks for events.
const poll = 50 * time.Millisecond

// Bench is a Lab with tests of flux-plunger on it.
type Bench struct{ *lab.Lab }

// Releases makes a namespace with a good chart in it, and n releases that are Ready.
func (b Bench) Releases(t testing.TB, namespace string, n int, edits ...func(*helmv2.HelmRelease)) []types.NamespacedName {
	t.Helper()
	must(t, b.Namespace(t.Context(), namespace))
	must(t, b.Publish(t.Context(), namespace, lab.Source, lab.Chart{}))
	keys := lab.Names(namespace, "hr", n)
	must(t, b.Install(t.Context(), keys, edits...))
	return keys
}

// Live reads the release.
func (b Bench) Live(t testing.TB, key types.NamespacedName) *helmv2.HelmRelease {
	t.Helper()
	hr, err := b.Release(t.Context(), key)
	must(t, err)
	return hr
}

// Await waits for a state, and shows what flux-plunger said when it never comes.
func (b Bench) Await(t testing.TB, key types.NamespacedName, state func(*helmv2.HelmRelease) bool) *helmv2.HelmRelease {
	t.Helper()
	hr, err := b.Until(t.Context(), key, Settle, state)
	if err != nil {
		t.Fatalf("%v\nevents: %v", err, b.Said(t, key))
	}
	return hr
}

// Left waits for the object to go and returns what it left behind.
func (b Bench) Left(t testing.TB, hr *helmv2.HelmRelease) lab.Remains {
	t.Helper()
	key := client.ObjectKeyFromObject(hr)
	if err := b.Gone(t.Context(), key, Settle); err != nil {
		t.Fatalf("%v\nevents: %v", err, b.Said(t, key))
	}
	left, err := b.Remains(t.Context(), hr)
	must(t, err)
	return left
}

// Said returns flux-plunger's events about a release, each as "Type Reason: note".
func (b Bench) Said(t testing.TB, key types.NamespacedName) []string {
	t.Helper()
	events, err := b.ControlPlane.Client().EventsV1().Events(key.Namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	var said []string
	for _, event := range events.Items {
		if event.ReportingController == contract.FieldManager && event.Regarding.Name == key.Name {
			said = append(said, event.Type+" "+event.Reason+": "+event.Note)
		}
	}
	return said
}

// Told waits until flux-plunger has said reason, which may have the event's type
// before it, "Warning UninstallUnproven", and returns the event.
func (b Bench) Told(t testing.TB, key types.NamespacedName, reason decide.Reason) (found string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), poll, Settle, true, func(context.Context) (bool, error) {
		found = b.saying(t, key, reason)
		return found != "", nil
	})
	if err != nil {
		t.Errorf("%s: no event %q, only %v", key, reason, b.Said(t, key))
	}
	return found
}

// Silent fails when flux-plunger has said reason.
func (b Bench) Silent(t testing.TB, key types.NamespacedName, reason decide.Reason) {
	t.Helper()
	if said := b.saying(t, key, reason); said != "" {
		t.Errorf("%s: unexpected event %q", key, said)
	}
}

func (b Bench) saying(t testing.TB, key types.NamespacedName, reason decide.Reason) string {
	t.Helper()
	for _, said := range b.Said(t, key) {
		_, untyped, _ := strings.Cut(said, " ")
		if begin := string(reason) + ":"; strings.HasPrefix(said, begin) || strings.HasPrefix(untyped, begin) {
			return said
		}
	}
	return ""
}

// Fenced reports whether the release carries the fence.
func Fenced(hr *helmv2.HelmRelease) bool { return slices.Contains(hr.Finalizers, contract.Fence) }

// Recovered reports Ready, unsuspended, unfenced and remembered.
func Recovered(hr *helmv2.HelmRelease) bool {
	return lab.Ready(hr) && !hr.Spec.Suspend && !Fenced(hr) && len(hr.Status.History) > 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
