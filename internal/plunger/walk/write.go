package walk

import (
	"context"
	"fmt"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// write sends the one write of an action, on a context that a stop does not
// cancel, and takes its answer as the next live read.
func (w *Walker) write(ctx context.Context, c *Case, action decide.Action) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), WriteBound)
	defer cancel()
	if action.Verb == decide.DeleteRevision || action.Verb == decide.Rewrite {
		return w.writeSecret(ctx, c, action)
	}
	answer, err := w.writeRelease(ctx, *c.Release, action)
	if answer != nil {
		c.saw(answer)
	}
	if err == nil && action.Verb == decide.SetFence {
		// Storage is read after the fence stands, not before (B5.8).
		c.storage = nil
	}
	return err
}

func (w *Walker) writeRelease(ctx context.Context, r decide.Release, action decide.Action) (*decide.Release, error) {
	switch action.Verb {
	case decide.SetFence:
		return w.Writer.SetFence(ctx, r)
	case decide.Acquire:
		return w.Writer.Acquire(ctx, r)
	case decide.Lift:
		return w.Writer.Lift(ctx, r)
	case decide.DropFence:
		return w.Writer.Drop(ctx, r)
	case decide.NoteUID:
		return w.Writer.NoteUID(ctx, r, action.Revision.UID, action.Note)
	case decide.NoteVersion:
		return w.Writer.NoteVersion(ctx, r, action.Revision.Version)
	case decide.Request:
		return w.Writer.Request(ctx, r, action.Revision.UID, w.Now())
	case decide.FillStatus:
		return w.Writer.FillStatus(ctx, r, action.Revision, w.Now())
	case decide.MarkUnproven:
		return w.Writer.MarkUnproven(ctx, r, action.Unproven)
	case decide.Remind:
		return w.Writer.Remind(ctx, r, action.Unproven, w.Now())
	default:
		return nil, fmt.Errorf("writing to HelmRelease %s: no write is called %q", r.Ref(), action.Verb)
	}
}

// writeSecret sends the one write to the storage. The release's view stays the
// live read that it was: nothing was written to it.
func (w *Walker) writeSecret(ctx context.Context, c *Case, action decide.Action) error {
	if action.Verb == decide.DeleteRevision {
		if err := w.Writer.DeleteRevision(ctx, action.Revision); err != nil {
			return err
		}
		next := c.storage.Without(action.Revision.UID)
		c.storage = &next
		return nil
	}
	if c.secret.Version().Object.UID != action.Revision.UID {
		return fmt.Errorf("rewriting Secret %s/%s: another one was read", action.Revision.Namespace, action.Revision.Name)
	}
	if err := w.Writer.Rewrite(ctx, c.secret); err != nil {
		return err
	}
	next := c.storage.Repaired(action.Revision.UID)
	c.storage, c.secret = &next, kube.Secret{}
	return nil
}
