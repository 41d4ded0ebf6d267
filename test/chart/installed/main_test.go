package installed

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	plungercli "github.com/holdfast-project/holdfast/internal/cli/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/chart/rendered"
	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

const (
	chartDir = "../../../charts/flux-plunger"
	// image stands for this test's binary as flux-plunger.
	image        = "flux-plunger.test/flux-plunger"
	roleVariable = "HOLDFAST_CHART_TEST_FLUX_PLUNGER"
	settle       = 90 * time.Second
	// testGrace is the shortest that the chart takes.
	testGrace = plunger.MinGrace
)

type values = map[string]any

var shared *lab.Lab

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(plungercli.Main(os.Args[1:], plungercli.Build{}, os.Stdout, os.Stderr))
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	os.Exit(lab.Tests{
		ControlPlane:   controlplane.Options{Images: map[string]controlplane.Program{image: {Path: self, Env: []string{roleVariable + "=1"}}}},
		HelmController: &helmcontroller.Options{Concurrent: 8},
		Begin: func(_ context.Context, l *lab.Lab) error {
			shared = l
			return nil
		},
	}.Run(m))
}

// site is one installation of the chart, in a namespace of its own, that looks
// after the releases with its own label in another.
type site struct {
	*testing.T
	name, ns, tenant string
}

// newSite makes the namespaces; it installs nothing.
func newSite(t *testing.T, name string) *site {
	t.Helper()
	s := &site{T: t, name: name, ns: name + "-system", tenant: name + "-tenant"}
	s.must(errors.Join(shared.Namespace(t.Context(), s.ns), shared.Namespace(t.Context(), s.tenant)))
	s.must(shared.Publish(t.Context(), s.tenant, lab.Source, lab.Chart{}))
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// fullname is the chart's name for its objects here.
func (s *site) fullname() string { return s.name + "-flux-plunger" }

// values are what every installation here has beside what a test asks for: the
// machine's ports are not taken, and each site has its own releases.
func (s *site) values(more values) values {
	v := values{
		"image": values{"repository": image}, "extraArgs": []any{"--metrics-addr=0", "--health-addr=0"},
		"shutdownGracePeriodSeconds": int(testGrace / time.Second), "watchLabelSelector": "site=" + s.name,
		"preDeleteHook": values{"ttlSecondsAfterFinished": 3600},
	}
	for key, value := range more {
		v[key] = value
	}
	return v
}

// helm connects Helm as an administrator.
func (s *site) helm() *action.Configuration {
	s.Helper()
	settings := cli.New()
	settings.KubeConfig = shared.ControlPlane.AdminKubeconfig()
	settings.SetNamespace(s.ns)
	config := action.NewConfiguration()
	s.must(config.Init(settings.RESTClientGetter(), s.ns, "secret"))
	return config
}

func (s *site) chart() *chart.Chart {
	s.Helper()
	loaded, err := rendered.Load(chartDir)
	s.must(err)
	return loaded
}

// edited returns the chart with a part of its Deployment's template replaced.
func (s *site) edited(replace, with string) *chart.Chart {
	s.Helper()
	loaded := s.chart()
	at := slices.IndexFunc(loaded.Templates, func(f *common.File) bool { return f.Name == "templates/deployment.yaml" })
	text := string(loaded.Templates[at].Data)
	if strings.Count(text, replace) != 1 {
		s.Fatalf("the template does not say once:\n%s", replace)
	}
	loaded.Templates[at].Data = []byte(strings.Replace(text, replace, with, 1))
	return loaded
}

func (s *site) install(c *chart.Chart, v values) {
	s.Helper()
	install := action.NewInstall(s.helm())
	install.ReleaseName, install.Namespace, install.ServerSideApply = s.name, s.ns, true
	install.WaitStrategy, install.Timeout = kube.StatusWatcherStrategy, settle
	_, err := install.RunWithContext(s.Context(), c, s.values(v))
	s.must(err)
}

func (s *site) upgrade(c *chart.Chart, v values) error {
	s.Helper()
	_, err := s.upgradeAction().RunWithContext(s.Context(), s.name, c, s.values(v))
	return err
}

// upgradeAction is "helm upgrade --reset-values".
func (s *site) upgradeAction() *action.Upgrade {
	s.Helper()
	upgrade := action.NewUpgrade(s.helm())
	upgrade.Namespace, upgrade.ServerSideApply, upgrade.ResetValues = s.ns, "true", true
	upgrade.WaitStrategy, upgrade.Timeout = kube.StatusWatcherStrategy, settle
	return upgrade
}

// uninstall is "helm uninstall", with the hook.
func (s *site) uninstall() error {
	s.Helper()
	_, err := s.uninstallAction().Run(s.name)
	return err
}

func (s *site) uninstallAction() *action.Uninstall {
	s.Helper()
	uninstall := action.NewUninstall(s.helm())
	uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, 2*settle
	return uninstall
}

// manifest lists what the installed release consists of, as references.
func (s *site) manifest(v values) []client.Object {
	s.Helper()
	made, err := rendered.Render(s.Context(), chartDir, rendered.Options{Name: s.name, Namespace: s.ns, Values: s.values(v)})
	s.must(err)
	var objects []client.Object
	for _, object := range made.Objects {
		objects = append(objects, object)
	}
	return objects
}

// job is the hook's.
func (s *site) job() *batchv1.Job {
	s.Helper()
	var job batchv1.Job
	s.must(shared.Client.Get(s.Context(), types.NamespacedName{Namespace: s.ns, Name: s.fullname() + "-release-fences"}, &job))
	return &job
}

// hookPod is the one Pod of the hook's Job.
func (s *site) hookPod() *corev1.Pod {
	s.Helper()
	var pods corev1.PodList
	s.must(shared.Client.List(s.Context(), &pods, client.InNamespace(s.ns), client.MatchingLabels{"app.kubernetes.io/component": "hook"}))
	if len(pods.Items) != 1 {
		s.Fatalf("the hook has %d Pods", len(pods.Items))
	}
	return &pods.Items[0]
}

// report is the log of the hook's Pod.
func (s *site) report() string {
	s.Helper()
	log, err := shared.ControlPlane.Client().CoreV1().Pods(s.ns).GetLogs(s.hookPod().Name, &corev1.PodLogOptions{}).Stream(s.Context())
	s.must(err)
	defer log.Close() // only read
	text, err := io.ReadAll(log)
	s.must(err)
	return string(text)
}

func (s *site) says(report string, parts ...string) {
	s.Helper()
	for _, part := range parts {
		if !strings.Contains(report, part) {
			s.Errorf("the hook's log does not say %q:\n%s", part, report)
		}
	}
}

func (s *site) eventually(what string, holds func() bool) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, settle, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		s.Fatalf("waiting for %s: %v", what, err)
	}
}

func (s *site) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.tenant, Name: name}
}

// releases makes some of this site's, and waits until they are installed.
func (s *site) releases(names ...string) {
	s.Helper()
	var keys []types.NamespacedName
	for _, name := range names {
		keys = append(keys, s.key(name))
	}
	s.must(shared.Install(s.Context(), keys, func(hr *helmv2.HelmRelease) { hr.Labels = map[string]string{"site": s.name} }))
}

// recovers makes a release stuck and waits for its recovery.
func (s *site) recovers(name string) {
	s.Helper()
	s.must(shared.Stick(s.Context(), s.key(name), lab.Damage{}))
	_, err := shared.Until(s.Context(), s.key(name), settle, plungertest.Recovered)
	s.must(err)
}

func (s *site) live(name string) *helmv2.HelmRelease {
	s.Helper()
	hr, err := shared.Release(s.Context(), s.key(name))
	s.must(err)
	return hr
}

func uninstallFailed(hr *helmv2.HelmRelease) bool {
	return lab.Released(hr) == helmv2.UninstallFailedReason
}

func (s *site) patch(name string, kind types.PatchType, manager, body string) {
	s.Helper()
	s.must(s.patched(name, kind, manager, body))
}

func (s *site) patched(name string, kind types.PatchType, manager, body string) error {
	hr := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: name}}
	options := []client.PatchOption{client.FieldOwner(manager)}
	if kind == types.ApplyPatchType {
		options = append(options, client.ForceOwnership)
		body = `{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease",` + strings.TrimPrefix(body, "{")
	}
	return shared.Client.Patch(s.Context(), hr, client.RawPatch(kind, []byte(body)), options...)
}

// user is the name by which the API server knows one of the chart's ServiceAccounts.
func (s *site) user(suffix string) string {
	return "system:serviceaccount:" + s.ns + ":" + s.fullname() + suffix
}
