package helmcontroller

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// steppedClient is handed to Flux's patch helper, whose one call becomes up to
// three requests: conditions with a resourceVersion, then metadata, then the
// rest of the status, the last two without. Between them it names the points and
// holds the gap, so that a test can stand in the middle.
type steppedClient struct {
	client.Client
	r *reconciler
}

// Patch sends the whole finalizer list as a merge patch without a lock: this is
// how the real one can erase a fence that it has not read.
func (c steppedClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	if string(data) == "{}" {
		return nil
	}
	err = c.Client.Patch(ctx, obj, patch, opts...)
	c.r.at(ctx, PointDroppedFinalizer, client.ObjectKeyFromObject(obj))
	c.pause(ctx)
	return err
}

// Status returns the writer for both status patches.
func (c steppedClient) Status() client.SubResourceWriter {
	return steppedStatus{SubResourceWriter: c.Client.Status(), c: c}
}

func (c steppedClient) pause(ctx context.Context) {
	if c.r.gap <= 0 {
		return
	}
	select {
	case <-time.After(c.r.gap):
	case <-ctx.Done():
	}
}

type steppedStatus struct {
	client.SubResourceWriter
	c steppedClient
}

// Patch tells the conditions' patch from the status patch by the lock that only
// the first one carries.
func (s steppedStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	key := client.ObjectKeyFromObject(obj)
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	if locked(data) {
		err := s.SubResourceWriter.Patch(ctx, obj, patch, opts...)
		s.c.r.at(ctx, PointPatchedConditions, key)
		s.c.pause(ctx)
		return err
	}
	s.c.r.at(ctx, PointBeforeStatusPatch, key)
	return s.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}

func locked(data []byte) bool {
	var body struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	return json.Unmarshal(data, &body) == nil && body.Metadata.ResourceVersion != ""
}

func keyOf(obj client.Object) types.NamespacedName { return client.ObjectKeyFromObject(obj) }
