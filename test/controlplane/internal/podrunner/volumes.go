package podrunner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenMount is where every container that may talk to the API server has its token.
const tokenMount = "/var/run/secrets/kubernetes.io/serviceaccount"

// defaultMode is the mode of files in volumes that do not say one.
const defaultMode = 0o644

// content is a file of a volume.
type content struct {
	data []byte
	mode os.FileMode
}

// payload is what a volume holds, by relative path.
type payload map[string]content

// mount makes the container's volumes appear below its root: each once, however often
// it is tried again for another's sake and however often the container is started.
func (c *container) mount() error {
	p := c.pod
	for _, m := range c.spec.VolumeMounts {
		if c.mounted[m.MountPath] {
			continue
		}
		at := slices.IndexFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at < 0 {
			return fmt.Errorf("mounting %s: the Pod has no such volume", m.Name)
		}
		if err := p.mountOne(c.root(m.MountPath), m.SubPath, &p.object.Spec.Volumes[at]); err != nil {
			return fmt.Errorf("mounting volume %s: %w", m.Name, err)
		}
		c.mounted[m.MountPath] = true
	}
	return nil
}

func (p *pod) mountOne(target, subPath string, volume *corev1.Volume) error {
	if volume.EmptyDir != nil {
		return p.share(target, filepath.Join(p.dir, "volumes", volume.Name, subPath))
	}
	files, refresh, err := p.payload(volume)
	if err != nil {
		return err
	}
	if subPath != "" {
		return writeSubPath(target, subPath, files)
	}
	if err := publishFiles(target, files); err != nil {
		return err
	}
	if refresh > 0 {
		p.refreshLater(target, volume, refresh)
	}
	return nil
}

// share gives several containers one directory.
func (p *pod) share(target, dir string) error {
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(filepath.Dir(target), 0o700)); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(dir, target)
}

// payload reads what a volume holds, and says after which time it has to be read
// again (zero: never) because a token in it expires.
func (p *pod) payload(v *corev1.Volume) (payload, time.Duration, error) {
	switch {
	case v.Secret != nil:
		data, err := p.secret(v.Secret.SecretName, v.Secret.Optional)
		files, err := project(data, v.Secret.Items, v.Secret.DefaultMode, v.Secret.Optional, err)
		return files, 0, err
	case v.ConfigMap != nil:
		data, err := p.configMap(v.ConfigMap.Name, v.ConfigMap.Optional)
		files, err := project(data, v.ConfigMap.Items, v.ConfigMap.DefaultMode, v.ConfigMap.Optional, err)
		return files, 0, err
	case v.DownwardAPI != nil:
		files, err := p.downward(v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
		return files, 0, err
	case v.Projected != nil:
		return p.projected(v.Projected)
	}
	return nil, 0, errors.New("the Pod runner has no volumes of this kind")
}

func (p *pod) projected(v *corev1.ProjectedVolumeSource) (payload, time.Duration, error) {
	all, refresh := payload{}, time.Duration(0)
	for _, source := range v.Sources {
		var files payload
		var err error
		switch {
		case source.Secret != nil:
			var data map[string][]byte
			data, err = p.secret(source.Secret.Name, source.Secret.Optional)
			files, err = project(data, source.Secret.Items, v.DefaultMode, source.Secret.Optional, err)
		case source.ConfigMap != nil:
			var data map[string][]byte
			data, err = p.configMap(source.ConfigMap.Name, source.ConfigMap.Optional)
			files, err = project(data, source.ConfigMap.Items, v.DefaultMode, source.ConfigMap.Optional, err)
		case source.DownwardAPI != nil:
			files, err = p.downward(source.DownwardAPI.Items, v.DefaultMode)
		case source.ServiceAccountToken != nil:
			files, refresh, err = p.token(source.ServiceAccountToken)
		default:
			err = errors.New("the Pod runner cannot project this kind of source")
		}
		if err != nil {
			return nil, 0, err
		}
		maps.Copy(all, files)
	}
	return all, refresh, nil
}

// project picks the files of a Secret or ConfigMap. err is that of reading it.
func project(data map[string][]byte, items []corev1.KeyToPath, mode *int32, optional *bool, err error) (payload, error) {
	if err != nil {
		return nil, err
	}
	files := payload{}
	if len(items) == 0 {
		for key, value := range data {
			files[key] = content{value, fileMode(nil, mode)}
		}
		return files, nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		switch {
		case ok:
			files[item.Path] = content{value, fileMode(item.Mode, mode)}
		case !isTrue(optional):
			return nil, fmt.Errorf("references non-existent key: %s", item.Key)
		}
	}
	return files, nil
}

func (p *pod) downward(items []corev1.DownwardAPIVolumeFile, mode *int32) (payload, error) {
	files := payload{}
	for _, item := range items {
		if item.FieldRef == nil {
			continue // resources: programs here are not limited
		}
		value, err := p.field(item.FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		files[item.Path] = content{[]byte(value), fileMode(item.Mode, mode)}
	}
	return files, nil
}

// token asks for a token that dies with the Pod.
func (p *pod) token(source *corev1.ServiceAccountTokenProjection) (payload, time.Duration, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.object.Name, UID: p.object.UID},
	}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	answer, err := p.runner.client.CoreV1().ServiceAccounts(p.object.Namespace).
		CreateToken(p.gone, p.object.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("requesting a ServiceAccount token: %w", err)
	}
	// A kubelet asks again after four fifths of the lifetime, too.
	lifetime := time.Until(answer.Status.ExpirationTimestamp.Time)
	return payload{source.Path: {[]byte(answer.Status.Token), 0o600}}, lifetime * 4 / 5, nil
}

func (p *pod) refreshLater(target string, volume *corev1.Volume, after time.Duration) {
	p.runner.all.Go(func() {
		for pause(p.stopping, after) {
			files, next, err := p.payload(volume)
			if err == nil {
				err = publishFiles(target, files)
			}
			if after = max(next, time.Minute); err != nil {
				logFailure("refreshing a token", p.object, err)
			}
		}
	})
}

// kubeconfig writes a kubeconfig that uses the container's token, if it has one.
func (c *container) kubeconfig() (string, error) {
	mounted := slices.ContainsFunc(c.spec.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenMount })
	if !mounted {
		return "", nil
	}
	ca, err := os.ReadFile(c.pod.runner.cfg.CA)
	if err != nil {
		return "", fmt.Errorf("reading the CA: %w", err)
	}
	const name = "pod"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.pod.runner.cfg.Server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(c.root(tokenMount), "token")}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: c.pod.object.Namespace}
	config.CurrentContext = name
	path := filepath.Join(c.pod.dir, "containers", c.spec.Name, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the Pod's kubeconfig: %w", err)
	}
	return path, nil
}

// publishFiles shows files in dir the way a kubelet does: a directory of its own for
// each version, "..data" pointing to the current one by an atomic rename, and one
// symbolic link per top entry. Programs that mind links meet here what they will meet.
func publishFiles(dir string, files payload) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	version, err := os.MkdirTemp(dir, ".."+time.Now().UTC().Format("2006_01_02_15_04_05."))
	if err != nil {
		return err
	}
	tops := map[string]bool{}
	for name, file := range files {
		if err := writeFile(filepath.Join(version, name), file); err != nil {
			return err
		}
		tops[top(name)] = true
	}
	current := filepath.Join(dir, "..data")
	old, _ := os.Readlink(current)
	if err := os.Symlink(filepath.Base(version), current+"_tmp"); err != nil {
		return err
	}
	if err := os.Rename(current+"_tmp", current); err != nil {
		return err
	}
	for name := range tops {
		err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(dir, old))
}

func top(path string) string {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(path) {
		path = dir
	}
	return path
}

// writeSubPath mounts one file or directory of a volume, without links.
func writeSubPath(target, subPath string, files payload) error {
	if file, ok := files[filepath.Clean(subPath)]; ok {
		return writeFile(target, file)
	}
	if err := os.MkdirAll(target, 0o700); err != nil {
		return err
	}
	for name, file := range files {
		inside, err := filepath.Rel(subPath, name)
		if err != nil || !filepath.IsLocal(inside) {
			continue
		}
		if err := writeFile(filepath.Join(target, inside), file); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, file content) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil { // an earlier start's may be read-only
		return err
	}
	if err := os.WriteFile(path, file.data, file.mode); err != nil {
		return err
	}
	return os.Chmod(path, file.mode) // whatever the umask is
}

func fileMode(own, volume *int32) os.FileMode {
	for _, mode := range []*int32{own, volume} {
		if mode != nil {
			return os.FileMode(*mode).Perm()
		}
	}
	return defaultMode
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
