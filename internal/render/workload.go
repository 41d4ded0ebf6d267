package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// workloadKinds are the kinds that a profile may take a Pod template from.
func workloadKinds() []string {
	return []string{"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"}
}

// templatePath is where the kind keeps its Pod template.
func templatePath(kind string) []string {
	if kind == "CronJob" {
		return []string{"spec", "jobTemplate", "spec", "template"}
	}
	return []string{"spec", "template"}
}

// podTemplate returns the template that the profile names, with only the named
// container and init containers left in it.
func podTemplate(objects []object, job JobSource) (corev1.PodTemplateSpec, error) {
	var template corev1.PodTemplateSpec
	source, err := findOne(objects, job.From.Kind, job.From.Component)
	if err != nil {
		return template, err
	}
	if err := source.decodeStrict(&template, templatePath(job.From.Kind)...); err != nil {
		return template, err
	}
	spec := &template.Spec
	spec.Containers, err = keep(spec.Containers, []string{job.From.Container}, source)
	if err != nil {
		return template, err
	}
	spec.InitContainers, err = keep(spec.InitContainers, job.InitContainers, source)
	return template, err
}

// keep returns the named containers in the template's order.
func keep(containers []corev1.Container, names []string, source object) ([]corev1.Container, error) {
	var kept []corev1.Container
	for _, container := range containers {
		if slices.Contains(names, container.Name) {
			kept = append(kept, container)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(kept, func(c corev1.Container) bool { return c.Name == name }) {
			return nil, refuse("chart", "%s %s in %s has no container %q, which the profile names", source.GetKind(), source.GetName(), source.path, name)
		}
	}
	return kept, nil
}

// setImages puts the candidate into the named container and holds every other
// image to a digest. The chart must have rendered the candidate there by
// itself: if the profile's values path does not reach this container, the
// upgrade would not deploy what the preflight tested.
func setImages(spec *corev1.PodSpec, job JobSource, path string, candidate Image) error {
	main := &spec.Containers[0]
	rendered, err := parseRendered(main.Image)
	if err != nil || rendered != candidate {
		return refuse("chart", "container %q of slot %q renders the image %q and not the candidate %s: the profile's image.values %q does not reach it",
			main.Name, job.Slot, main.Image, candidate, path)
	}
	main.Image = candidate.String()
	for i := range spec.InitContainers {
		init := &spec.InitContainers[i]
		image, err := parseRendered(init.Image)
		if err != nil {
			return refuse("chart", "init container %q of slot %q has the image %q, which has no digest: what it runs could change under the preflight",
				init.Name, job.Slot, init.Image)
		}
		init.Image = image.String()
	}
	return nil
}
