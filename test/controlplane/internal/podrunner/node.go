package podrunner

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/test/controlplane/internal/nodeconfig"
)

// The lease that says that the node lives: a quarter of its duration passes between
// two renewals, as with a kubelet.
const (
	leaseSeconds = 40
	renewEvery   = leaseSeconds / 4 * time.Second
)

// keepNode registers the node, and renews its lease until ctx ends.
func (r *Runner) keepNode(ctx context.Context) error {
	for {
		err := r.register(ctx)
		if err == nil {
			break
		}
		slog.Warn("registering the node", "error", err)
		if !pause(ctx, retryPause) {
			return nil
		}
	}
	for wait := time.Duration(0); pause(ctx, wait); {
		wait = renewEvery
		if err := r.renew(ctx); err != nil {
			slog.Warn("renewing the node's lease", "error", err)
			wait = retryPause
		}
	}
	return nil
}

// register creates the Node, or takes the one of an earlier start. The API server
// taints a new Node "not ready" and the controller-manager lifts that; the runner
// lifts it itself, because Pods shall also run without a controller-manager.
func (r *Runner) register(ctx context.Context) error {
	node, err := r.node()
	if err != nil {
		return err
	}
	nodes := r.client.CoreV1().Nodes()
	_, err = nodes.Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var current *corev1.Node
		if current, err = nodes.Get(ctx, node.Name, metav1.GetOptions{}); err == nil {
			current.Status = node.Status
			_, err = nodes.UpdateStatus(ctx, current, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("registering node %s: %w", node.Name, err)
	}
	_, err = nodes.Patch(ctx, node.Name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("lifting the taints of node %s: %w", node.Name, err)
	}
	return nil
}

func (r *Runner) node() (*corev1.Node, error) {
	_, text, err := net.SplitHostPort(r.cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("reading the node's address: %w", err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("reading the node's port: %w", err)
	}
	plenty := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1000Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1000Gi"), corev1.ResourcePods: resource.MustParse("10000"),
	}
	now := metav1.Now()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeconfig.NodeName, Labels: map[string]string{
			corev1.LabelHostname: nodeconfig.NodeName, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
		}},
		Status: corev1.NodeStatus{
			Capacity: plenty, Allocatable: plenty,
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: loopback}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
			NodeInfo:        corev1.NodeSystemInfo{OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, KubeletVersion: "podrunner"},
		},
	}
	for _, c := range []struct {
		kind  corev1.NodeConditionType
		value corev1.ConditionStatus
	}{
		{corev1.NodeReady, corev1.ConditionTrue},
		{corev1.NodeMemoryPressure, corev1.ConditionFalse},
		{corev1.NodeDiskPressure, corev1.ConditionFalse},
		{corev1.NodePIDPressure, corev1.ConditionFalse},
	} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: c.kind, Status: c.value, Reason: "PodRunner", LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	return node, nil
}

// renew creates the lease or renews it; nobody else writes it.
func (r *Runner) renew(ctx context.Context) error {
	leases := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	holder, seconds, now := nodeconfig.NodeName, int32(leaseSeconds), metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}
	lease, err := leases.Get(ctx, nodeconfig.NodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: nodeconfig.NodeName}, Spec: spec}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	case err == nil:
		lease.Spec = spec
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}
