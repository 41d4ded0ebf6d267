package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// maxGraceSeconds bounds how long a deleted preflight Pod may go on. Cleanup
// waits 30 s for a Job with its Pods (A6.6).
const maxGraceSeconds = 10

// shapePod makes a template's Pod spec one of a preflight Job: what A4.3 and
// A4.4 refuse is refused, what makes no sense in a Job is dropped, what they
// ask for is set, and everything else stays as the chart says.
func shapePod(spec *corev1.PodSpec, job JobSource) error {
	if err := checkHost(spec, job); err != nil {
		return err
	}
	if err := keepVolumes(spec, job); err != nil {
		return err
	}
	if err := restrict(spec, job.Slot); err != nil {
		return err
	}
	dropServing(spec, job)
	spec.RestartPolicy = corev1.RestartPolicyNever
	// The Job's deadline is the one that decides; two would race.
	spec.ActiveDeadlineSeconds = nil
	grace := int64(maxGraceSeconds)
	if own := spec.TerminationGracePeriodSeconds; own == nil || *own > grace {
		spec.TerminationGracePeriodSeconds = &grace
	}
	// The account stays, since it may hold the pull secrets; only its token
	// does not come along. The field's old name would come back as its new one.
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	}
	spec.DeprecatedServiceAccount = ""
	token := job.ServiceAccountToken
	spec.AutomountServiceAccountToken = &token
	return nil
}

// dropServing removes what serves a long-running replica. Probes would restart
// or fail a container that only starts, shows what it is and ends; lifecycle
// hooks register it with the outside world; ports advertise it. A host name
// and a subdomain make it one of a headless service's peers; readiness gates
// wait for a load balancer that will never know it. Affinity between Pods and
// topology spread place a replica among its siblings, by labels that a
// preflight Pod does not have; node affinity stays, since on which nodes the
// image runs is part of what is proven.
func dropServing(spec *corev1.PodSpec, job JobSource) {
	for _, c := range eachContainer(spec) {
		c.LivenessProbe, c.ReadinessProbe, c.Lifecycle = nil, nil, nil
		// A sidecar among the init containers is started when its startup
		// probe says so, which may name a port; anything else has no use for one.
		sidecar := c.RestartPolicy != nil
		if !sidecar {
			c.StartupProbe = nil
		}
		c.Ports = slices.DeleteFunc(c.Ports, func(p corev1.ContainerPort) bool {
			if p.HostPort == 0 {
				return !sidecar
			}
			return !job.allows(AllowHostPorts)
		})
	}
	spec.Hostname, spec.Subdomain, spec.SetHostnameAsFQDN = "", "", nil
	spec.ReadinessGates, spec.TopologySpreadConstraints = nil, nil
	if spec.Affinity != nil {
		spec.Affinity.PodAffinity, spec.Affinity.PodAntiAffinity = nil, nil
	}
}

// checkHost refuses the node's namespaces (A4.3).
func checkHost(spec *corev1.PodSpec, job JobSource) error {
	hostPort := slices.ContainsFunc(eachContainer(spec), func(c *corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })
	})
	for _, use := range []struct {
		used       bool
		permission Permission
	}{
		{spec.HostNetwork, AllowHostNetwork},
		{spec.HostPID, AllowHostPID},
		{spec.HostIPC, AllowHostIPC},
		{hostPort, AllowHostPorts},
	} {
		if use.used && !job.allows(use.permission) {
			return refuse("chart", "the Pod template of slot %q uses %s, which the profile does not allow", job.Slot, use.permission)
		}
	}
	return nil
}

// keepVolumes keeps the volumes that the kept containers mount, and refuses
// those among them that the profile does not allow.
func keepVolumes(spec *corev1.PodSpec, job JobSource) error {
	var wanted []string
	for _, c := range eachContainer(spec) {
		for _, mount := range c.VolumeMounts {
			wanted = append(wanted, mount.Name)
		}
		for _, device := range c.VolumeDevices {
			wanted = append(wanted, device.Name)
		}
	}
	var kept []corev1.Volume
	for _, volume := range spec.Volumes {
		if !slices.Contains(wanted, volume.Name) {
			continue
		}
		if err := checkVolume(volume, job); err != nil {
			return err
		}
		kept = append(kept, volume)
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(kept, func(v corev1.Volume) bool { return v.Name == name }) {
			return refuse("chart", "the Pod template of slot %q mounts %q, which is none of its volumes: a volume claim template belongs to the replicas and cannot be used by a preflight", job.Slot, name)
		}
	}
	spec.Volumes = kept
	return nil
}

// checkVolume lets through what ends with the Pod and holds nobody else's data.
func checkVolume(volume corev1.Volume, job JobSource) error {
	source := volume.VolumeSource
	switch {
	case source.ConfigMap != nil, source.Secret != nil, source.EmptyDir != nil, source.DownwardAPI != nil:
		return nil
	case source.Projected != nil:
		return checkProjected(volume.Name, source.Projected, job)
	}
	for _, use := range []struct {
		used       bool
		permission Permission
	}{
		{source.PersistentVolumeClaim != nil, AllowPersistentVolumeClaim},
		{source.HostPath != nil, AllowHostPath},
		{source.Ephemeral != nil, AllowEphemeral},
		{source.CSI != nil, AllowCSI},
		{source.NFS != nil, AllowNFS},
	} {
		if use.used && job.allows(use.permission) {
			return nil
		}
		if use.used {
			return refuse("chart", "volume %q of slot %q is a %s, which the profile does not allow", volume.Name, job.Slot, use.permission)
		}
	}
	return refuse("chart", "volume %q of slot %q is of a type that a preflight cannot use", volume.Name, job.Slot)
}

func checkProjected(name string, projected *corev1.ProjectedVolumeSource, job JobSource) error {
	for _, source := range projected.Sources {
		if source.ServiceAccountToken != nil && !job.ServiceAccountToken {
			return refuse("chart", "volume %q of slot %q projects a service-account token, which the profile does not ask for", name, job.Slot)
		}
		if source.PodCertificate != nil {
			return refuse("chart", "volume %q of slot %q requests a certificate for the Pod, which a preflight cannot use", name, job.Slot)
		}
	}
	return nil
}

// restrict sets what the restricted Pod security standard demands, unless the
// template is stricter already. A template that says root is refused: with
// runAsNonRoot beside it the kubelet would never start the container, and
// without it the preflight would run as something that it may not.
func restrict(spec *corev1.PodSpec, slot identity.Slot) error {
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	pod := spec.SecurityContext
	if root(pod.RunAsUser) {
		return refuse("chart", "the Pod template of slot %q runs as user 0; a preflight runs with restricted Pod security only", slot)
	}
	yes := true
	pod.RunAsNonRoot = &yes
	pod.SeccompProfile = strictSeccomp(pod.SeccompProfile, true)
	// Kernel settings of the Pod are no part of a start and the unsafe ones
	// are refused by the kubelet.
	pod.Sysctls, pod.WindowsOptions = nil, nil
	for _, c := range eachContainer(spec) {
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		if root(c.SecurityContext.RunAsUser) {
			return refuse("chart", "container %q of slot %q runs as user 0; a preflight runs with restricted Pod security only", c.Name, slot)
		}
		restrictContainer(c.SecurityContext)
	}
	return nil
}

func restrictContainer(s *corev1.SecurityContext) {
	yes, no := true, false
	s.RunAsNonRoot, s.AllowPrivilegeEscalation = &yes, &no
	s.Privileged, s.ProcMount, s.WindowsOptions = nil, nil, nil
	s.SeccompProfile = strictSeccomp(s.SeccompProfile, false)
	// NET_BIND_SERVICE is the one addition that the restricted standard knows.
	var add []corev1.Capability
	if s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "NET_BIND_SERVICE") {
		add = []corev1.Capability{"NET_BIND_SERVICE"}
	}
	s.Capabilities = &corev1.Capabilities{Add: add, Drop: []corev1.Capability{"ALL"}}
}

// strictSeccomp keeps a profile of the node's (Localhost), sets the runtime's
// for a whole Pod, and takes out a container's way around it.
func strictSeccomp(own *corev1.SeccompProfile, pod bool) *corev1.SeccompProfile {
	switch {
	case own != nil && own.Type != corev1.SeccompProfileTypeUnconfined:
		return own
	case pod:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	default:
		return nil
	}
}

func root(user *int64) bool { return user != nil && *user == 0 }

// eachContainer returns every container of the Pod to be changed in place.
func eachContainer(spec *corev1.PodSpec) []*corev1.Container {
	var all []*corev1.Container
	for i := range spec.InitContainers {
		all = append(all, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i])
	}
	return all
}
