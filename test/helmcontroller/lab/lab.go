// Package lab prepares what the tests of flux-plunger need around a control
// plane: charts and the server that hands them out, sources that point at it,
// releases that are installed for real and then made stuck, a helm-controller
// (the stand-in or, when HELM_CONTROLLER names one, a real binary), and an oracle
// that says what is left of a release. [Tests] runs a package's tests on all that.
//
// Its invariant: a release becomes stuck only by what makes it stuck in the
// field, a stored revision whose status was left behind, and the oracle asks the
// API server about every object, never a controller. It must not import any
// package of the preflight or of flux-plunger.
package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/crds"
)

// poll is how often the lab asks when it waits.
const poll = 25 * time.Millisecond

// Lab is a control plane on which HelmReleases can live.
type Lab struct {
	// ControlPlane is the one the lab was set up on.
	ControlPlane *controlplane.ControlPlane
	// Client reads and writes it live, as a cluster administrator, and knows the
	// Flux types.
	Client client.WithWatch

	charts *chartServer
	// controller is the helm-controller that was started last, opts are its options.
	controller helmController
	opts       helmcontroller.Options
}

// New installs the definitions and starts the chart server. Close ends what the Lab
// has started; the control plane stays the caller's.
func New(ctx context.Context, cp *controlplane.ControlPlane) (*Lab, error) {
	if err := crds.Install(ctx, cp.AdminConfig()); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), helmv2.AddToScheme(scheme), sourcev1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering the API types: %w", err)
	}
	c, err := client.NewWithWatch(cp.AdminConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("building the lab's client: %w", err)
	}
	return &Lab{ControlPlane: cp, Client: c, charts: newChartServer()}, nil
}

// Close ends the helm-controller, if there is one, and the chart server.
func (l *Lab) Close() error {
	defer l.charts.server.Close()
	if l.controller == nil {
		return nil
	}
	return l.controller.Stop()
}

// Namespace creates a namespace; one that is there is fine.
func (l *Lab) Namespace(ctx context.Context, name string) error {
	err := l.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// Release reads one.
func (l *Lab) Release(ctx context.Context, key types.NamespacedName) (*helmv2.HelmRelease, error) {
	hr := &helmv2.HelmRelease{}
	if err := l.Client.Get(ctx, key, hr); err != nil {
		return nil, fmt.Errorf("reading HelmRelease %s: %w", key, err)
	}
	return hr, nil
}

// Until waits until the release satisfies what, or says what it saw last. A
// release that is gone does not satisfy anything, see Gone.
func (l *Lab) Until(ctx context.Context, key types.NamespacedName, bound time.Duration, what func(*helmv2.HelmRelease) bool) (*helmv2.HelmRelease, error) {
	return l.follow(ctx, key, bound, func(hr *helmv2.HelmRelease, err error) (bool, error) {
		return err == nil && what(hr), err
	})
}

// Gone waits until the object is gone.
func (l *Lab) Gone(ctx context.Context, key types.NamespacedName, bound time.Duration) error {
	_, err := l.follow(ctx, key, bound, func(_ *helmv2.HelmRelease, err error) (bool, error) {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	return err
}

// ForceAway takes every finalizer of a terminating release whose uninstall fails,
// and waits until it is gone. It does so between two looks of helm-controller, whose
// gate is given: the patches that end a look name no UID, and would hand what that
// look remembers to the next object of the name.
func (l *Lab) ForceAway(ctx context.Context, key types.NamespacedName, gate *helmcontroller.Gate) error {
	if !Real() {
		stop := gate.Hold(helmcontroller.PointDone, key)
		defer stop.Release()
		select {
		case <-stop.Arrived():
		case <-time.After(settle):
			return fmt.Errorf("waiting for helm-controller to look at HelmRelease %s: it does not", key)
		}
	}
	if err := l.Edit(ctx, key, func(hr *helmv2.HelmRelease) { hr.Finalizers = nil }); err != nil {
		return err
	}
	return l.Gone(ctx, key, settle)
}

// follow reads the release and then watches it, asking done about every state:
// hundreds of tests that poll would keep the API server from its work. It reads
// again whenever the watch ends.
func (l *Lab) follow(ctx context.Context, key types.NamespacedName, bound time.Duration, done func(*helmv2.HelmRelease, error) (bool, error)) (*helmv2.HelmRelease, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	last := &helmv2.HelmRelease{}
	for {
		hr := &helmv2.HelmRelease{}
		readErr := l.Client.Get(ctx, key, hr)
		if readErr == nil {
			last = hr
		}
		ended, err := done(hr, readErr)
		if err == nil && !ended {
			var seen *helmv2.HelmRelease
			seen, ended, err = l.watch(ctx, hr, done)
			if seen != nil {
				last = seen
			}
		}
		if ended && err == nil {
			return last, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return last, fmt.Errorf("waiting for HelmRelease %s: %w; last seen %s", key, err, Describe(last))
		}
	}
}

// watch follows one object from the state that was read, until done or until the
// watch ends.
func (l *Lab) watch(ctx context.Context, from *helmv2.HelmRelease, done func(*helmv2.HelmRelease, error) (bool, error)) (*helmv2.HelmRelease, bool, error) {
	w, err := l.Client.Watch(ctx, &helmv2.HelmReleaseList{}, client.InNamespace(from.Namespace), client.MatchingFields{"metadata.name": from.Name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from.ResourceVersion}})
	if err != nil {
		return nil, false, err
	}
	defer w.Stop()
	var last *helmv2.HelmRelease
	for event := range w.ResultChan() {
		hr, ok := event.Object.(*helmv2.HelmRelease)
		if !ok || event.Type == watch.Deleted {
			return last, false, nil // the next read says what became of it
		}
		last = hr
		if ended, err := done(hr, nil); ended || err != nil {
			return last, ended, err
		}
	}
	return last, false, nil
}

// Delete asks for the object's deletion.
func (l *Lab) Delete(ctx context.Context, key types.NamespacedName) error {
	_, err := l.DeleteSeen(ctx, key)
	return err
}

// DeleteSeen is Delete, and returns the object as the API server had it when it
// accepted that very request: whether a fence stood in time is read off it. An
// object that no finalizer held is answered with a Status, and was gone at once:
// what is returned then carries only its name.
func (l *Lab) DeleteSeen(ctx context.Context, key types.NamespacedName) (*helmv2.HelmRelease, error) {
	path := fmt.Sprintf("/apis/%s/namespaces/%s/helmreleases/%s", helmv2.GroupVersion, key.Namespace, key.Name)
	data, err := l.ControlPlane.Client().Discovery().RESTClient().Delete().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("deleting HelmRelease %s: %w", key, err)
	}
	hr := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	var answer metav1.TypeMeta
	if err := json.Unmarshal(data, &answer); err == nil && answer.Kind == "Status" {
		return hr, nil
	}
	if err := json.Unmarshal(data, hr); err != nil {
		return nil, fmt.Errorf("reading the answer to the delete of HelmRelease %s: %w", key, err)
	}
	return hr, nil
}
