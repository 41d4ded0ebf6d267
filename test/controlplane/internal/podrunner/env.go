package podrunner

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/controlplane/internal/nodeconfig"
)

// command is everything needed to start a program.
type command struct {
	path string
	argv []string
	env  []string
	dir  string
}

// command composes what package controlplane documents at Program.
func (c *container) command(program nodeconfig.Program) (command, error) {
	vars, err := c.variables()
	if err != nil {
		return command{}, err
	}
	words := append(append([]string(nil), c.spec.Command...), c.spec.Args...)
	for i := range words {
		words[i] = expand(words[i], vars)
	}
	built := command{path: program.Path, argv: []string{program.Path}, dir: c.root(c.spec.WorkingDir)}
	if len(c.spec.Command) > 0 {
		built.argv[0], words = words[0], words[1:]
	}
	built.argv = append(append(built.argv, program.Args...), words...)
	if err := os.MkdirAll(built.dir, 0o700); err != nil {
		return command{}, fmt.Errorf("making the working directory: %w", err)
	}
	base, err := c.baseEnv()
	if err != nil {
		return command{}, err
	}
	built.env = append(base, program.Env...)
	for _, name := range vars.order {
		built.env = append(built.env, name+"="+vars.value[name])
	}
	return built, nil
}

// root is a path of the container as a path of the machine.
func (c *container) root(path string) string {
	return filepath.Join(c.pod.dir, "containers", c.spec.Name, "rootfs", path)
}

// baseEnv is what every container has, before what the Pod says.
func (c *container) baseEnv() ([]string, error) {
	root := c.root("")
	if err := os.MkdirAll(c.root("tmp"), 0o700); err != nil {
		return nil, fmt.Errorf("making the container's directory: %w", err)
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + root, "TMPDIR=" + c.root("tmp"),
		"HOSTNAME=" + c.pod.object.Name, "HOLDFAST_POD_ROOT=" + root,
	}
	if server, err := url.Parse(c.pod.runner.cfg.Server); err == nil {
		env = append(env, "KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		env = append(env, "GOCOVERDIR="+dir)
	}
	kubeconfig, err := c.kubeconfig()
	if err != nil {
		return nil, err
	}
	if kubeconfig != "" {
		env = append(env, "KUBECONFIG="+kubeconfig)
	}
	return env, nil
}

// variables are the Pod's own, in their order; a later one wins.
type variables struct {
	order []string
	value map[string]string
}

func (v *variables) set(name, value string) {
	if _, ok := v.value[name]; !ok {
		v.order = append(v.order, name)
	}
	v.value[name] = value
}

func (c *container) variables() (*variables, error) {
	vars := &variables{value: map[string]string{}}
	for _, from := range c.spec.EnvFrom {
		if err := c.pod.envFrom(vars, from); err != nil {
			return nil, err
		}
	}
	for _, env := range c.spec.Env {
		if env.ValueFrom == nil {
			vars.set(env.Name, expand(env.Value, vars))
			continue
		}
		value, ok, err := c.pod.valueFrom(env.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", env.Name, err)
		}
		if ok {
			vars.set(env.Name, value)
		}
	}
	return vars, nil
}

func (p *pod) envFrom(vars *variables, from corev1.EnvFromSource) error {
	var data map[string][]byte
	var err error
	switch {
	case from.SecretRef != nil:
		data, err = p.secret(from.SecretRef.Name, from.SecretRef.Optional)
	case from.ConfigMapRef != nil:
		data, err = p.configMap(from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	}
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(data) {
		vars.set(from.Prefix+name, string(data[name]))
	}
	return nil
}

// valueFrom returns no value for an optional key that is missing, and for resources,
// which programs here are not limited by.
func (p *pod) valueFrom(from *corev1.EnvVarSource) (string, bool, error) {
	var data map[string][]byte
	var err error
	var key, name string
	var optional *bool
	switch {
	case from.FieldRef != nil:
		value, err := p.field(from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		key, name, optional = ref.Key, "secret "+ref.Name, ref.Optional
		data, err = p.secret(ref.Name, optional)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		key, name, optional = ref.Key, "configmap "+ref.Name, ref.Optional
		data, err = p.configMap(ref.Name, optional)
	default:
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	value, ok := data[key]
	if !ok && !isTrue(optional) {
		return "", false, fmt.Errorf("couldn't find key %s in %s of namespace %s", key, name, p.object.Namespace)
	}
	return string(value), ok, nil
}

// field resolves a fieldRef of the downward API.
func (p *pod) field(path string) (string, error) {
	o := p.object
	values := map[string]string{
		"metadata.name": o.Name, "metadata.namespace": o.Namespace, "metadata.uid": string(o.UID),
		"metadata.labels": lines(o.Labels), "metadata.annotations": lines(o.Annotations),
		"spec.nodeName": o.Spec.NodeName, "spec.serviceAccountName": o.Spec.ServiceAccountName,
		"status.hostIP": loopback, "status.podIP": loopback, "status.hostIPs": loopback, "status.podIPs": loopback,
	}
	if value, ok := values[path]; ok {
		return value, nil
	}
	for prefix, from := range map[string]map[string]string{"metadata.labels['": o.Labels, "metadata.annotations['": o.Annotations} {
		if key, ok := strings.CutPrefix(path, prefix); ok {
			return from[strings.TrimSuffix(key, "']")], nil
		}
	}
	return "", fmt.Errorf("the Pod runner does not know the field %s", path)
}

func lines(pairs map[string]string) string {
	var text []string
	for _, key := range sortedKeys(pairs) {
		text = append(text, fmt.Sprintf("%s=%q", key, pairs[key]))
	}
	return strings.Join(text, "\n")
}

// secret returns a Secret's data, and nothing when it is optional and missing.
func (p *pod) secret(name string, optional *bool) (map[string][]byte, error) {
	secret, err := p.runner.client.CoreV1().Secrets(p.object.Namespace).Get(p.gone, name, metav1.GetOptions{})
	if missing(err, optional) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return secret.Data, nil
}

func (p *pod) configMap(name string, optional *bool) (map[string][]byte, error) {
	object, err := p.runner.client.CoreV1().ConfigMaps(p.object.Namespace).Get(p.gone, name, metav1.GetOptions{})
	if missing(err, optional) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	for key, value := range object.BinaryData {
		data[key] = value
	}
	return data, nil
}

func missing(err error, optional *bool) bool { return apierrors.IsNotFound(err) && isTrue(optional) }

func isTrue(b *bool) bool { return b != nil && *b }

// expand replaces $(NAME) where NAME is known, and makes $$ one dollar, which is what
// a kubelet does with commands, arguments and values.
func expand(text string, vars *variables) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, ok := vars.value[found[2:len(found)-1]]; ok {
			return value
		}
		return found
	})
}

var reference = regexp.MustCompile(`\$\$|\$\([-._a-zA-Z0-9]+\)`)

// cmd is the command for package exec.
func (b command) cmd() *exec.Cmd {
	return &exec.Cmd{Path: b.path, Args: b.argv, Env: b.env, Dir: b.dir, SysProcAttr: attributes()}
}

var errNoProgram = errors.New("the image is registered without a program")
