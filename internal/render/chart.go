package render

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
)

// Asset is an input file or tree, named for people and bound by its digest. It
// has the fields of the evidence's record of the same name.
type Asset struct {
	Name    string
	Version string
	SHA256  string
}

// Capabilities are the live cluster's, read by the caller.
type Capabilities struct {
	// KubeVersion is the server's gitVersion, for example "v1.36.3".
	KubeVersion string
	// APIVersions holds every served "group/version" ("v1" for the core) and
	// every "group/version/Kind", as Helm's own discovery lists them.
	APIVersions []string
}

// loadChart reads a chart once, from a directory or a .tgz, and checks what
// Helm checks before an upgrade.
func loadChart(path string) (*chart.Chart, error) {
	// Helm opens whatever is no directory, and a FIFO would never answer.
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, refuse("chart", "%s is neither a directory nor a regular file", path)
	}
	loaded, err := loader.Load(path)
	if err != nil {
		return nil, refuse("chart", "loading %s: %v", path, err)
	}
	if loaded.Metadata.Type == "library" {
		return nil, refuse("chart", "%s is a library chart, which renders nothing", path)
	}
	for _, wanted := range loaded.Metadata.Dependencies {
		if !slices.ContainsFunc(loaded.Dependencies(), func(c *chart.Chart) bool { return c.Name() == wanted.Name }) {
			return nil, refuse("chart", "%s lacks its dependency %q in charts/; run helm dependency build", path, wanted.Name)
		}
	}
	return loaded, nil
}

// chartAsset digests the files that Helm loaded, by name and content, and not
// the archive, whose bytes change with every packing. It is taken from the same
// bytes that are rendered: a file swapped in between cannot differ. A chart that
// "helm package" packed has another digest than its directory, since that
// rewrites Chart.yaml.
func chartAsset(c *chart.Chart) Asset {
	files := slices.SortedFunc(slices.Values(c.Raw), func(a, b *common.File) int { return cmp.Compare(a.Name, b.Name) })
	sum := sha256.New()
	for _, file := range files {
		// Each part is preceded by its length: "ab"+"c" is not "a"+"bc".
		for _, part := range [][]byte{[]byte(file.Name), file.Data} {
			_ = binary.Write(sum, binary.BigEndian, uint64(len(part)))
			sum.Write(part)
		}
	}
	return Asset{Name: c.Name(), Version: c.Metadata.Version, SHA256: hex.EncodeToString(sum.Sum(nil))}
}

// renderChart renders as "helm upgrade --dry-run" does, with the capabilities
// given and without a client: lookup finds nothing and no host name is
// resolved. It goes to the engine itself, because the SDK's install action adds
// the capabilities compiled into it to those of the cluster, so that a template
// could choose an API that the cluster does not serve.
//
// The files come back by template path.
func renderChart(ctx context.Context, c *chart.Chart, in input) (map[string]string, error) {
	values, err := common.ReadValues(in.Values)
	if err != nil {
		// The parser quotes what it cannot decode, and a values file is private.
		return nil, refuse("values", "the file is not a YAML map; helm template shows where")
	}
	private := newCensor(values)
	if err := in.Profile.Image.set(values, in.image); err != nil {
		return nil, err
	}
	caps, err := capabilities(in.Capabilities)
	if err != nil {
		return nil, err
	}
	if c.Metadata.KubeVersion != "" && !chartutil.IsCompatibleRange(c.Metadata.KubeVersion, caps.KubeVersion.String()) {
		return nil, refuse("chart", "%s needs Kubernetes %s, the cluster is %s", c.Name(), c.Metadata.KubeVersion, caps.KubeVersion.Version)
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, refuse("chart", "processing the dependencies of %s: %s", c.Name(), private.text(err))
	}
	// A preflight comes before an upgrade of a release that is there.
	options := common.ReleaseOptions{Name: in.Release, Namespace: in.Namespace, Revision: 1, IsUpgrade: true}
	top, err := commonutil.ToRenderValues(c, values, options, caps)
	if err != nil {
		return nil, refuse("values", "%s", private.text(err))
	}
	var helm engine.Engine
	files, err := helm.RenderWithContext(ctx, c, top)
	if err != nil {
		return nil, refuse("chart", "rendering %s: %s", c.Name(), private.text(err))
	}
	return files, nil
}

func capabilities(given Capabilities) (*common.Capabilities, error) {
	version, err := common.ParseKubeVersion(given.KubeVersion)
	if err != nil {
		return nil, refuse("cluster's version", "%q is not a Kubernetes version", given.KubeVersion)
	}
	if len(given.APIVersions) == 0 {
		return nil, refuse("cluster's capabilities", "the list of served API versions is empty")
	}
	return &common.Capabilities{
		KubeVersion: *version,
		APIVersions: slices.Clone(given.APIVersions),
		HelmVersion: common.DefaultCapabilities.HelmVersion,
	}, nil
}

// sources returns the rendered YAML by path, sorted, without the notes.
func sources(files map[string]string) []string {
	paths := slices.Sorted(maps.Keys(files))
	return slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "NOTES.txt") })
}
