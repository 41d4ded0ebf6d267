package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-logr/logr"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// acceptDiscovery asks for the whole of discovery in one answer (Kubernetes 1.30
// and later).
const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// Capabilities are what a chart may ask about a cluster (A4.4).
type Capabilities struct {
	// KubeVersion is the server's gitVersion, for example "v1.36.3".
	KubeVersion string
	// APIVersions holds every served "group/version" ("v1" for the core) and
	// every "group/version/Kind", sorted.
	APIVersions []string
}

// Capabilities reads the server's version and its discovery. They shape what is
// rendered and prove nothing; no request of this package is addressed by them.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	var info version.Info
	if err := c.readPath(ctx, "/version", acceptObject, &info); err != nil {
		return Capabilities{}, err
	}
	found := Capabilities{KubeVersion: info.GitVersion}
	for _, path := range []string{"/api", "/apis"} {
		var groups apidiscoveryv2.APIGroupDiscoveryList
		if err := c.readPath(ctx, path, acceptDiscovery, &groups); err != nil {
			return Capabilities{}, err
		}
		if groups.Kind != "APIGroupDiscoveryList" {
			return Capabilities{}, fmt.Errorf("reading %s: the server does not offer aggregated discovery, which Kubernetes has since 1.30", path)
		}
		for _, group := range groups.Items {
			found.APIVersions = append(found.APIVersions, served(group)...)
		}
	}
	slices.Sort(found.APIVersions)
	found.APIVersions = slices.Compact(found.APIVersions)
	return found, nil
}

// served lists one group's versions and the kinds in them.
func served(group apidiscoveryv2.APIGroupDiscovery) (versions []string) {
	for _, v := range group.Versions {
		groupVersion := v.Version
		if group.Name != "" {
			groupVersion = group.Name + "/" + v.Version
		}
		versions = append(versions, groupVersion)
		for _, resource := range v.Resources {
			if resource.ResponseKind != nil {
				versions = append(versions, groupVersion+"/"+resource.ResponseKind.Kind)
			}
		}
	}
	return versions
}

// readPath reads what is no resource. The answer is judged like every read.
func (c *Client) readPath(ctx context.Context, path, accept string, into any) error {
	got := answer{call: call{verb: "get", object: identity.Object{Kind: path}, auditID: NewAuditID()}}
	x := &exchange{limit: pageLimit}
	ctx, cancel := context.WithTimeout(withExchange(ctx, x), requestTimeout)
	defer cancel()
	request := c.rest.Verb(http.MethodGet).AbsPath(path).SetHeader("Accept", accept).
		SetHeader(auditHeader, got.call.auditID).MaxRetries(readRetries)
	err := x.await(ctx, func() error {
		_, err := request.DoRaw(klog.NewContext(ctx, logr.Discard()))
		return err
	})
	got.read(x, err)
	if err := readVerdict(got); err != nil {
		return err
	}
	if err := got.decode(into); err != nil {
		return &Unreadable{got.about(metav1.Status{}), err}
	}
	return nil
}
