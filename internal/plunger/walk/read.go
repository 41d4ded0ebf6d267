package walk

import (
	"context"
	"errors"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// read fills in what the decision asked for. The release has to be read again
// after it, before any write.
func (w *Walker) read(ctx context.Context, c *Case, action decide.Action) error {
	var err error
	switch action.Verb {
	case decide.ReadStorage:
		c.storage, err = w.Reader.Storage(ctx, *c.Release)
		c.Memory = c.Memory.Listed(*c.Release, c.storage, w.Now())
	case decide.Recheck:
		c.storage, err = w.Reader.Recheck(ctx, *c.storage, action.Revision)
	case decide.ReadPayload:
		err = w.readPayload(ctx, c, action.Revision)
	}
	if err != nil {
		c.storage = nil
	}
	c.Live = false
	return err
}

// readPayload reads the content of the latest revision, but not again one that was
// left alone and has not changed since (B10.3).
func (w *Walker) readPayload(ctx context.Context, c *Case, revision decide.Revision) error {
	payload := c.Memory.LeftAlone.Payload
	if payload.UID != revision.UID || c.Memory.LeftAlone.ResourceVersion != revision.ResourceVersion {
		read, secret, err := w.Reader.Payload(ctx, revision)
		var gone *kube.Gone
		if errors.As(err, &gone) {
			c.storage = nil
			return nil
		}
		if err != nil {
			return err
		}
		payload, c.secret = *read, secret
	}
	if payload.Undecodable != "" {
		c.leaveAlone(payload)
		return nil
	}
	c.holds(payload)
	return nil
}

// holds takes what the latest revision's content is.
func (c *Case) holds(payload decide.Payload) {
	next := *c.storage
	next.Payload = &payload
	c.storage = &next
}

// leaveAlone remembers a content that cannot be rewritten.
func (c *Case) leaveAlone(payload decide.Payload) {
	if read := c.secret.Version(); read.Object.UID == payload.UID {
		c.Memory.LeftAlone = decide.LeftAlone{ResourceVersion: read.ResourceVersion, Payload: payload}
	}
	c.holds(payload)
}
