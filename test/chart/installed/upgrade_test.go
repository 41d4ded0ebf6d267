package installed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const strategyBlock = `  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 0
      maxUnavailable: 1
`

// B7.1: why the strategy stays RollingUpdate. The earlier chart had no strategy
// block, so its live Deployments carry the API server's default rollingUpdate:
// over it this chart's block is accepted, and Recreate is rejected.
func TestUpgradeOverADeploymentWithoutStrategy(t *testing.T) {
	t.Parallel()
	s := newSite(t, "strategy")
	s.install(s.edited(strategyBlock, ""), values{"replicas": 0})
	rolling := s.rollingUpdate()
	if rolling == nil || rolling.MaxSurge.String() != "25%" {
		t.Fatalf("the API server's default is %v", rolling)
	}
	err := s.upgrade(s.edited(strategyBlock, "  strategy:\n    type: Recreate\n"), values{"replicas": 0})
	if err == nil || !strings.Contains(err.Error(), "spec.strategy.rollingUpdate: Forbidden") {
		t.Errorf("Recreate over the default block: %v", err)
	}
	s.must(s.upgrade(s.chart(), values{"replicas": 0}))
	if rolling := s.rollingUpdate(); rolling == nil || rolling.MaxSurge.String() != "0" || rolling.MaxUnavailable.String() != "1" {
		t.Errorf("the strategy is %v", rolling)
	}
	s.must(s.uninstall())
}

// B7.1: an upgrade that keeps what was set for the earlier chart, also where that
// chart knew fewer values.
func TestUpgradeKeepsThePreviousValues(t *testing.T) {
	t.Parallel()
	s := newSite(t, "previous")
	earlier := s.edited(strategyBlock, "")
	for _, unknown := range []string{"networkPolicy", "podDisruptionBudget", "admissionPolicy"} {
		delete(earlier.Values, unknown)
	}
	earlier.Schema = nil
	earlier.Templates = slices.DeleteFunc(earlier.Templates, func(f *common.File) bool {
		return f.Name == "templates/availability.yaml" || f.Name == "templates/admission.yaml"
	})
	s.install(earlier, values{"replicas": 0, "strategy": "reclaim", "shutdownGracePeriodSeconds": 45, "unprovenUninstall": "hold"})
	upgrade := s.upgradeAction()
	upgrade.ResetValues, upgrade.ResetThenReuseValues = false, true
	_, err := upgrade.RunWithContext(t.Context(), s.name, s.chart(), nil)
	s.must(err)
	pod := s.deployment().Spec.Template.Spec
	if args := strings.Join(pod.Containers[0].Args, " "); *pod.TerminationGracePeriodSeconds != 45 || !strings.Contains(args, "--strategy=reclaim") ||
		!strings.Contains(args, "--unproven-uninstall=hold") || !strings.Contains(args, "--watch-label-selector=site=previous") {
		t.Errorf("a grace period of %d s, arguments %s", *pod.TerminationGracePeriodSeconds, args)
	}
	if rolling := s.rollingUpdate(); rolling.MaxSurge.String() != "0" {
		t.Errorf("the strategy is %v", rolling)
	}
	s.must(s.uninstall())
	s.nothingLeft(values{"strategy": "reclaim"})
}

func (s *site) rollingUpdate() *appsv1.RollingUpdateDeployment {
	s.Helper()
	return s.deployment().Spec.Strategy.RollingUpdate
}

// B7.9: under either strategy the controller's account may change Helm's Secrets
// as its strategy does, and nothing else of any Secret, although RBAC alone would
// allow it.
func TestAdmissionPolicy(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"repair", "reclaim"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "policy-"+strategy)
			s.install(s.chart(), values{"strategy": strategy, "replicas": 0})
			as := s.as("")
			s.policyIsEnforced(as, strategy)
			for name, c := range s.policyCases(strategy) {
				err := c.do(as, s.secret(name, c.kind))
				if denied := apierrors.IsForbidden(err) || apierrors.IsInvalid(err); err != nil && !denied || denied != c.denied {
					t.Errorf("%s: %v, want denied=%t", name, err, c.denied)
				}
				if c.denied && !strings.Contains(fmt.Sprint(err), c.says) {
					t.Errorf("%s: denied by %v, want %q", name, err, c.says)
				}
			}
			s.must(s.uninstall())
		})
	}
}

// as is a client with a token of one of the chart's ServiceAccounts.
func (s *site) as(suffix string) kubernetes.Interface {
	s.Helper()
	path, err := shared.ControlPlane.KubeconfigFor(s.Context(), s.ns, s.fullname()+suffix)
	s.must(err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	s.must(err)
	clients, err := kubernetes.NewForConfig(config)
	s.must(err)
	return clients
}

func (s *site) secret(name string, kind corev1.SecretType) *corev1.Secret {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: strings.ReplaceAll(name, " ", "-"),
		Labels: map[string]string{"owner": "helm", "status": "uninstalling"}, Annotations: map[string]string{"a": "b"}},
		Type: kind, Data: map[string][]byte{"release": []byte("before"), "other": []byte("kept")}}
	s.must(shared.Client.Create(s.Context(), secret))
	return secret
}

type policyCase struct {
	kind   corev1.SecretType
	denied bool
	says   string
	do     func(kubernetes.Interface, *corev1.Secret) error
}

const (
	helmType  = corev1.SecretType("helm.sh/release.v1")
	byPolicy  = "ValidatingAdmissionPolicy"
	byTheRole = "cannot"
)

func remove(c kubernetes.Interface, secret *corev1.Secret) error {
	return c.CoreV1().Secrets(secret.Namespace).Delete(context.Background(), secret.Name, metav1.DeleteOptions{})
}

func change(edit func(*corev1.Secret)) func(kubernetes.Interface, *corev1.Secret) error {
	return func(c kubernetes.Interface, secret *corev1.Secret) error {
		edit(secret)
		_, err := c.CoreV1().Secrets(secret.Namespace).Update(context.Background(), secret, metav1.UpdateOptions{})
		return err
	}
}

// rewrite is what repair does.
func rewrite(s *corev1.Secret) {
	s.Data["release"], s.Labels["status"] = []byte("after"), "failed"
}

func (s *site) policyCases(strategy string) map[string]policyCase {
	if strategy == "reclaim" {
		return map[string]policyCase{
			"helm deleted":   {kind: helmType, do: remove},
			"opaque deleted": {kind: corev1.SecretTypeOpaque, denied: true, says: byPolicy, do: remove},
			"helm updated":   {kind: helmType, denied: true, says: byTheRole, do: change(rewrite)},
		}
	}
	cases := map[string]policyCase{
		"helm rewritten":   {kind: helmType, do: change(rewrite)},
		"payload alone":    {kind: helmType, do: change(func(s *corev1.Secret) { s.Data["release"] = []byte("after") })},
		"opaque rewritten": {kind: corev1.SecretTypeOpaque, denied: true, says: byPolicy, do: change(rewrite)},
		"helm deleted":     {kind: helmType, denied: true, says: byTheRole, do: remove},
		"opaque deleted":   {kind: corev1.SecretTypeOpaque, denied: true, says: byTheRole, do: remove},
	}
	for name, edit := range map[string]func(*corev1.Secret){
		"other data":    func(s *corev1.Secret) { s.Data["other"] = []byte("changed") },
		"more data":     func(s *corev1.Secret) { s.Data["more"] = []byte("x") },
		"less data":     func(s *corev1.Secret) { delete(s.Data, "other") },
		"renamed data":  func(s *corev1.Secret) { delete(s.Data, "release"); s.Data["more"] = []byte("x") },
		"no data":       func(s *corev1.Secret) { s.Data = nil },
		"other label":   func(s *corev1.Secret) { s.Labels["owner"] = "me" },
		"more labels":   func(s *corev1.Secret) { s.Labels["more"] = "x" },
		"less labels":   func(s *corev1.Secret) { delete(s.Labels, "owner") },
		"annotation":    func(s *corev1.Secret) { s.Annotations["a"] = "c" },
		"no annotation": func(s *corev1.Secret) { s.Annotations = nil },
		"finalizer":     func(s *corev1.Secret) { s.Finalizers = []string{other} },
		"owner": func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "u"}}
		},
		"immutable":       func(s *corev1.Secret) { yes := true; s.Immutable = &yes },
		"immutable false": func(s *corev1.Secret) { no := false; s.Immutable = &no },
	} {
		cases[name] = policyCase{kind: helmType, denied: true, says: byPolicy, do: change(func(s *corev1.Secret) { rewrite(s); edit(s) })}
	}
	return cases
}

// policyIsEnforced waits until the API server's cache has the new policy.
func (s *site) policyIsEnforced(as kubernetes.Interface, strategy string) {
	s.Helper()
	do := remove
	if strategy == "repair" {
		do = change(rewrite)
	}
	tries := 0
	s.eventually("the policy", func() bool {
		tries++
		return apierrors.IsForbidden(do(as, s.secret(fmt.Sprintf("probe %d", tries), corev1.SecretTypeOpaque))) ||
			apierrors.IsInvalid(do(as, s.secret(fmt.Sprintf("probe %d again", tries), corev1.SecretTypeOpaque)))
	})
}
