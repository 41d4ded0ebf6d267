package render

import (
	"encoding/json"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// renderJob renders the small chart with these lines and returns its one Job.
func renderJob(t *testing.T, jobLines, deployment string) batchv1.Job {
	t.Helper()
	rendered, err := Render(t.Context(), smallInputs(t, jobLines, smallSecret, deployment))
	if err != nil {
		t.Fatal(err)
	}
	var job batchv1.Job
	if err := json.Unmarshal(rendered.Slots[1].Manifest, &job); err != nil {
		t.Fatal(err)
	}
	return job
}

func TestTemplatesThatAreRefused(t *testing.T) {
	mount := "volumeMounts: [{name: v, mountPath: /v}]"
	volume := func(source string) string {
		return strings.Replace(with("container", mount), "#pod", "- {name: v, "+source+"}", 1)
	}
	init := func(image string) string {
		return strings.Replace(smallDeployment, "prepare:latest", image, 1)
	}
	for name, row := range map[string]struct{ job, deployment, want string }{
		"A4.3: a claim":                         {"", volume("persistentVolumeClaim: {claimName: x}"), "persistentVolumeClaim, which the profile does not allow"},
		"A4.3: a path of the host":              {"", volume("hostPath: {path: /}"), "hostPath, which the profile does not allow"},
		"A4.3: a claim of the Pod":              {"", volume("ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}"), "ephemeral, which the profile does not allow"},
		"A4.3: a driver's volume":               {"", volume("csi: {driver: x}"), "csi, which the profile does not allow"},
		"A4.3: a network file system":           {"", volume("nfs: {server: x, path: /}"), "nfs, which the profile does not allow"},
		"A4.3: a volume of a type nobody named": {"  allow: [hostPath, csi, nfs]\n", volume("iscsi: {targetPortal: x, iqn: iqn, lun: 0}"), "of a type that a preflight cannot use"},
		"A4.3: a claim template's mount":        {"", with("container", mount), "which is none of its volumes"},
		"A4.3: one permission is not another":   {"  allow: [hostPath]\n", volume("persistentVolumeClaim: {claimName: x}"), "persistentVolumeClaim"},
		"A4.3: the host's network":              {"", with("pod", "hostNetwork: true"), "uses hostNetwork"},
		"A4.3: the host's processes":            {"", with("pod", "hostPID: true"), "uses hostPID"},
		"A4.3: the host's IPC":                  {"", with("pod", "hostIPC: true"), "uses hostIPC"},
		"A4.3: a host port":                     {"", with("container", "ports: [{containerPort: 80, hostPort: 80}]"), "uses hostPorts"},
		"A4.4: a projected token":               {"", volume("projected: {sources: [{serviceAccountToken: {path: token}}]}"), "service-account token, which the profile does not ask for"},
		"A4.4: a projected certificate":         {"  serviceAccountToken: true\n", volume("projected: {sources: [{podCertificate: {signerName: a/b, keyType: ED25519}}]}"), "certificate"},
		"A4.4: a Pod as root":                   {"", with("pod", "securityContext: {runAsUser: 0}"), "runs as user 0"},
		"A4.4: a container as root":             {"", with("container", "securityContext: {runAsUser: 0}"), `container "api" of slot "api" runs as user 0`},
		"A4.4: an init container as root":       {"  initContainers: [prepare]\n", strings.Replace(init("prepare@"+testDigest), "@"+testDigest, "@"+testDigest+"\n        securityContext: {runAsUser: 0}", 1), `container "prepare"`},
		"A4.2: an init container with a tag":    {"  initContainers: [prepare]\n", smallDeployment, `"prepare:latest", which has no digest`},
		"A4.4: no such init container":          {"  initContainers: [other]\n", smallDeployment, `no container "other"`},
		"A4.4: no such container":               {"", strings.Replace(smallDeployment, "- name: api", "- name: web", 1), `no container "api"`},
		"A4.4: no such workload":                {"", strings.Replace(smallDeployment, "component: api", "component: web", 1), "renders no Deployment with the label app.kubernetes.io/component=api"},
		"A4.4: two such workloads":              {"", smallDeployment + "\n---" + strings.Replace(smallDeployment, "{name: api,", "{name: api-2,", 1), "renders api and api-2"},
		"A4.4: another kind of workload":        {"", strings.Replace(smallDeployment, "kind: Deployment", "kind: StatefulSet", 1), "renders no Deployment"},
		"A4.4: the values do not reach it":      {"", strings.Replace(smallDeployment, "{{ .Values.image }}", "fixed@"+oldDigest, 1), "does not reach it"},
		"A4.4: only the digest reaches it":      {"", strings.Replace(smallDeployment, "{{ .Values.image }}", "other@"+testDigest, 1), "does not reach it"},
		"A4.4: a field that nobody knows":       {"", with("container", "variables: []"), `unknown field "spec.containers[0].variables"`},
		"A4.4: a field of the wrong type":       {"", with("container", "env: text"), "invalid spec.template"},
		"A4.4: a template without a Pod":        {"", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, labels: {app.kubernetes.io/component: api}}\n", "has no spec.template"},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, smallInputs(t, row.job, smallSecret, row.deployment), row.want)
		})
	}
}

// A4.3: what the profile allows passes.
func TestAllowedTemplates(t *testing.T) {
	deployment := with("container", "volumeMounts: [{name: claim, mountPath: /data}]", "ports: [{containerPort: 80, hostPort: 80}, {containerPort: 81}]") +
		"\n      hostNetwork: true\n"
	job := renderJob(t, "  allow: [persistentVolumeClaim, hostNetwork, hostPorts]\n", deployment)
	spec := job.Spec.Template.Spec
	if len(spec.Volumes) != 1 || spec.Volumes[0].PersistentVolumeClaim == nil || !spec.HostNetwork {
		t.Errorf("got %+v", spec)
	}
	if ports := spec.Containers[0].Ports; len(ports) != 1 || ports[0].HostPort != 80 {
		t.Errorf("got the ports %v, want only the host port", ports)
	}
}

// A4.2a, A4.2c, A4.4: what every Job is.
func TestEveryJob(t *testing.T) {
	job := renderJob(t, "", smallDeployment)
	spec := job.Spec
	if !*spec.Suspend || *spec.BackoffLimit != 0 || *spec.Parallelism != 1 || *spec.Completions != 1 || *spec.ActiveDeadlineSeconds != 90 {
		t.Errorf("got %+v", spec)
	}
	if spec.TTLSecondsAfterFinished != nil || len(job.OwnerReferences)+len(job.Finalizers) > 0 {
		t.Errorf("a TTL, an owner or a finalizer: %+v", job)
	}
	pod := spec.Template.Spec
	if pod.RestartPolicy != corev1.RestartPolicyNever || *pod.AutomountServiceAccountToken || *pod.TerminationGracePeriodSeconds != 10 {
		t.Errorf("got %+v", pod)
	}
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 || len(pod.Volumes) != 0 {
		t.Errorf("only the named container stays, with its volumes: %+v", pod)
	}
	wantLabels := map[string]string{identity.InstanceLabel: "demo", identity.ComponentLabel: identity.ComponentPreflight}
	for _, labels := range []map[string]string{job.Labels, spec.Template.Labels} {
		if len(labels) != 2 || labels[identity.InstanceLabel] != wantLabels[identity.InstanceLabel] || labels[identity.ComponentLabel] != wantLabels[identity.ComponentLabel] {
			t.Errorf("A4.3: the labels are %v", labels)
		}
	}
	if spec.Template.Annotations["checksum/config"] != "abc" || spec.Template.Annotations[identity.NonceAnnotation] != testNonce {
		t.Errorf("the template's annotations are %v", spec.Template.Annotations)
	}
}

// A4.4: a part of a second is not cut off a deadline.
func TestDeadlineRoundsUp(t *testing.T) {
	in := example(t)
	in.Deadline += 1
	rendered, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(rendered.Slots[2].Manifest), `"activeDeadlineSeconds":91`) {
		t.Errorf("got %s", rendered.Slots[2].Manifest)
	}
}

// A4.4: what serves a replica is dropped, and where it may run is not.
func TestServingIsDropped(t *testing.T) {
	deployment := with("container",
		"ports: [{containerPort: 80}]", "livenessProbe: {tcpSocket: {port: 80}}", "readinessProbe: {tcpSocket: {port: 80}}",
		"startupProbe: {tcpSocket: {port: 80}}", "lifecycle: {preStop: {exec: {command: [x]}}}")
	deployment += strings.Join([]string{"", "hostname: h", "subdomain: s", "activeDeadlineSeconds: 5", "terminationGracePeriodSeconds: 300",
		"readinessGates: [{conditionType: x/y}]", "nodeSelector: {disk: ssd}", "tolerations: [{key: t}]",
		"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
		"affinity: {podAntiAffinity: {}, podAffinity: {}, nodeAffinity: {}}", ""}, "\n      ")
	pod := renderJob(t, "", deployment).Spec.Template.Spec
	c := pod.Containers[0]
	if c.Ports != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil || c.Lifecycle != nil {
		t.Errorf("the container serves: %+v", c)
	}
	if pod.Hostname+pod.Subdomain != "" || pod.ReadinessGates != nil || pod.TopologySpreadConstraints != nil || pod.ActiveDeadlineSeconds != nil {
		t.Errorf("the Pod serves: %+v", pod)
	}
	if pod.Affinity.PodAffinity != nil || pod.Affinity.PodAntiAffinity != nil || pod.Affinity.NodeAffinity == nil || pod.NodeSelector["disk"] != "ssd" || len(pod.Tolerations) != 1 {
		t.Errorf("its place is not its own: %+v", pod)
	}
	if *pod.TerminationGracePeriodSeconds != 10 {
		t.Errorf("the grace period is %d", *pod.TerminationGracePeriodSeconds)
	}
}

// A4.4: a sidecar among the init containers needs its startup probe, and the
// kept order is the template's.
func TestInitContainersThatAreKept(t *testing.T) {
	deployment := strings.Replace(smallDeployment, "- name: prepare\n        image: prepare:latest",
		"- name: first\n        image: first@"+testDigest+"\n        startupProbe: {tcpSocket: {port: 1}}\n"+
			"      - {name: skipped, image: skipped}\n"+
			"      - name: sidecar\n        image: sidecar:v1@"+testDigest+"\n        restartPolicy: Always\n        startupProbe: {tcpSocket: {port: health}}\n"+
			"        ports: [{name: health, containerPort: 9090}]", 1)
	kept := renderJob(t, "  initContainers: [sidecar, first]\n", deployment).Spec.Template.Spec.InitContainers
	if len(kept) != 2 || kept[0].Name != "first" || kept[1].Name != "sidecar" {
		t.Fatalf("got %+v", kept)
	}
	if kept[0].StartupProbe != nil || kept[1].StartupProbe == nil {
		t.Errorf("the probes are %v and %v", kept[0].StartupProbe, kept[1].StartupProbe)
	}
	if kept[0].Ports != nil || len(kept[1].Ports) != 1 || kept[1].Ports[0].Name != "health" {
		t.Errorf("the ports are %v and %v: the probe names one", kept[0].Ports, kept[1].Ports)
	}
	if kept[1].Image != "sidecar@"+testDigest {
		t.Errorf("the image is %s", kept[1].Image)
	}
}

// A4.4: restricted Pod security, unless the template is stricter.
func TestRestrictedSecurity(t *testing.T) {
	t.Run("from nothing", func(t *testing.T) {
		pod := renderJob(t, "", smallDeployment).Spec.Template.Spec
		c := pod.Containers[0].SecurityContext
		if !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("the Pod: %+v", pod.SecurityContext)
		}
		if !*c.RunAsNonRoot || *c.AllowPrivilegeEscalation || len(c.Capabilities.Drop) != 1 || c.Capabilities.Drop[0] != "ALL" || c.Capabilities.Add != nil {
			t.Errorf("the container: %+v", c)
		}
	})
	t.Run("from everything", func(t *testing.T) {
		deployment := with("container", "securityContext: {privileged: true, allowPrivilegeEscalation: true, runAsNonRoot: false, procMount: Unmasked, "+
			"seccompProfile: {type: Unconfined}, capabilities: {add: [SYS_ADMIN, NET_BIND_SERVICE]}}")
		deployment += "\n      securityContext: {runAsNonRoot: false, sysctls: [{name: a, value: b}], seccompProfile: {type: Unconfined}}\n"
		pod := renderJob(t, "", deployment).Spec.Template.Spec
		c := pod.Containers[0].SecurityContext
		if c.Privileged != nil || *c.AllowPrivilegeEscalation || !*c.RunAsNonRoot || c.ProcMount != nil || c.SeccompProfile != nil {
			t.Errorf("the container: %+v", c)
		}
		if len(c.Capabilities.Add) != 1 || c.Capabilities.Add[0] != "NET_BIND_SERVICE" {
			t.Errorf("the capabilities: %+v", c.Capabilities)
		}
		if !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.Sysctls != nil || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("the Pod: %+v", pod.SecurityContext)
		}
	})
	t.Run("from stricter", func(t *testing.T) {
		deployment := with("container", "securityContext: {readOnlyRootFilesystem: true, runAsUser: 65532, seccompProfile: {type: Localhost, localhostProfile: own}}") +
			"\n      terminationGracePeriodSeconds: 3\n"
		pod := renderJob(t, "", deployment).Spec.Template.Spec
		c := pod.Containers[0].SecurityContext
		if !*c.ReadOnlyRootFilesystem || *c.RunAsUser != 65532 || c.SeccompProfile.Type != corev1.SeccompProfileTypeLocalhost || *pod.TerminationGracePeriodSeconds != 3 {
			t.Errorf("what was stricter is lost: %+v", c)
		}
	})
}

// A4.4: a token only for a profile that asks for it; the account stays.
func TestServiceAccount(t *testing.T) {
	pod := renderJob(t, "", smallDeployment+"\n      serviceAccount: old\n      automountServiceAccountToken: true\n").Spec.Template.Spec
	if *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "old" || pod.DeprecatedServiceAccount != "" {
		t.Errorf("got %v, %q, %q", *pod.AutomountServiceAccountToken, pod.ServiceAccountName, pod.DeprecatedServiceAccount)
	}
	pod = renderJob(t, "  serviceAccountToken: true\n", smallDeployment+"\n      serviceAccountName: own\n      automountServiceAccountToken: false\n").Spec.Template.Spec
	if !*pod.AutomountServiceAccountToken || pod.ServiceAccountName != "own" {
		t.Errorf("got %v, %q", *pod.AutomountServiceAccountToken, pod.ServiceAccountName)
	}
}

// A4.4: a profile's command replaces as Kubernetes replaces.
func TestCommands(t *testing.T) {
	deployment := with("container", "command: [own]", "args: [one, two]")
	for name, row := range map[string]struct{ job, want string }{
		"the template's own":            {"", "[own] [one two]"},
		"arguments replace arguments":   {"  startup: {args: [x]}\n", "[own] [x]"},
		"a command drops the arguments": {"  startup: {command: [new]}\n", "[new] []"},
		"a command with arguments":      {"  startup: {command: [new], args: [x]}\n", "[new] [x]"},
		"identity is not for a startup": {"  identity: {command: [z]}\n", "[own] [one two]"},
	} {
		t.Run(name, func(t *testing.T) {
			c := renderJob(t, row.job, deployment).Spec.Template.Spec.Containers[0]
			got := "[" + strings.Join(c.Command, " ") + "] [" + strings.Join(c.Args, " ") + "]"
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// A4.4: every kind that has a Pod template can be named.
func TestWorkloadKinds(t *testing.T) {
	for _, kind := range workloadKinds() {
		template := strings.Replace(smallDeployment, "kind: Deployment", "kind: "+kind, 1)
		if kind == "CronJob" {
			head, pod, _ := strings.Cut(template, "spec:\n")
			template = head + "spec:\n  jobTemplate:\n    spec:\n" + strings.ReplaceAll(pod, "\n", "\n    ")
			template = strings.Replace(template, "  selector:", "      selector:", 1)
		}
		in := smallInputs(t, "", smallSecret, template)
		in.Profile.Jobs[0].From.Kind = kind
		if _, err := Render(t.Context(), in); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
