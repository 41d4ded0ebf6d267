package preflight

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/redact"
	"github.com/holdfast-project/holdfast/internal/render"
)

// attempt is the registered attempt while its slots are created and awaited.
type attempt struct {
	Config
	records *journal.Attempt
	nonce   string
	image   render.Image
	jobs    []*job
	// listed are the manifests of the candidate's index, once indexRead.
	listed    []string
	indexRead bool
}

// carryOut creates the slots in the plan's order and waits for their Jobs. It
// returns nil only when every Job succeeded with the candidate's image.
func (a *attempt) carryOut(ctx context.Context, slots []render.Slot) error {
	for _, slot := range slots {
		if err := a.awaitSlots(ctx, slot.After); err != nil {
			return err
		}
		object, err := a.create(ctx, slot)
		if err != nil {
			return err
		}
		if !object.Consumer() {
			continue
		}
		j := &job{slot: slot, object: object}
		a.jobs = append(a.jobs, j)
		if err := a.release(ctx, j); err != nil {
			return err
		}
	}
	return a.await(ctx, a.jobs)
}

// create makes one slot: its marker is durable before the one request leaves, and
// its outcome before anything else is sent, or anybody hears of what the API server
// warned of: a terminal that is held up must not keep an outcome from the disk.
func (a *attempt) create(ctx context.Context, slot render.Slot) (identity.Object, error) {
	if err := stopped(ctx, a.Timeout); err != nil {
		return identity.Object{}, err
	}
	body, err := slot.Body(a.records.PlanSHA256())
	if err != nil {
		return identity.Object{}, fmt.Errorf("encoding slot %s: %w", slot.Name, err)
	}
	auditID := kube.NewAuditID()
	a.Report.Slot(string(slot.Name), "creating", slot.Object.String(), Busy)
	if err := a.records.Start(slot.Name, auditID, time.Now()); err != nil {
		return identity.Object{}, &NotDurable{Err: err}
	}
	created, answered := a.send(ctx, kube.CreateRequest{Place: slot.Object, Body: body, AuditID: auditID, Nonce: a.nonce})
	if !answered {
		return identity.Object{}, &Uncertain{Slot: slot.Name, Object: slot.Object, AuditID: auditID, Reason: "a second signal ended the wait for its answer"}
	}
	object, err := a.settle(slot, auditID, created)
	for _, text := range created.Warnings {
		a.Report.Warn("the API server says: " + a.Redact.String(text))
	}
	// What stops the run while the marker is made durable keeps the request from
	// leaving (A4.1). That is recorded like any refusal, since a marker alone would be
	// uncertain for ever, and the run ends as it would have before.
	var rejected *Rejected
	if end := stopped(ctx, a.Timeout); created.Outcome == kube.Unsent && end != nil && errors.As(err, &rejected) {
		return object, end
	}
	return object, err
}

// send carries out the create. A context that is done sends nothing, and that is
// answered here and now; one that ends later does not cancel the request: kube bounds
// the wait for its answer ([kube.CreateWait]), and the second signal abandons it here (A4.1).
func (a *attempt) send(ctx context.Context, request kube.CreateRequest) (kube.Created, bool) {
	if ctx.Err() != nil {
		return a.Cluster.Create(ctx, request), true
	}
	answer := make(chan kube.Created, 1)
	go func() { answer <- a.Cluster.Create(ctx, request) }()
	select {
	case created := <-answer:
		return created, true
	case <-a.GiveUp:
	case <-ctx.Done():
		// Nothing else tells in all that time that the signal was heard, and a second one,
		// sent for lack of an answer, would make the create uncertain.
		a.Report.Warn(fmt.Sprintf("%v: the answer to the create of %s is awaited first, for %.0f s at most, and recorded; "+
			"a second signal gives it up and leaves the create uncertain", stopped(ctx, a.Timeout), request.Place, kube.CreateWait.Seconds()))
	}
	return awaited(answer, a.GiveUp)
}

// awaited returns the answer, and false when it was given up. An answer that has
// arrived counts, though the second signal came with it.
func awaited(answer <-chan kube.Created, giveUp <-chan struct{}) (kube.Created, bool) {
	select {
	case created := <-answer:
		return created, true
	case <-giveUp:
	}
	select {
	case created := <-answer:
		return created, true
	default:
		return kube.Created{}, false
	}
}

// untilGivenUp is the context of a request that neither the first signal nor the
// timeout cuts off, and the second signal does (A4.1).
func (a *attempt) untilGivenUp(ctx context.Context) (context.Context, context.CancelFunc) {
	outlasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-a.GiveUp:
			cancel()
		case <-outlasting.Done():
		}
	}()
	return outlasting, cancel
}

// settle makes the outcome durable before anybody acts on it, or hears of it.
func (a *attempt) settle(slot render.Slot, auditID string, created kube.Created) (identity.Object, error) {
	if created.Outcome == kube.Acknowledged {
		object := created.Meta.Object
		if err := a.records.Acknowledge(slot.Name, object, created.Meta.CreationTimestamp); err != nil {
			return identity.Object{}, &NotDurable{Err: err, Unrecorded: object}
		}
		a.Report.Slot(string(slot.Name), "created", object.String(), Busy)
		return object, nil
	}
	reason := a.safe(created.Err.Error())
	defer a.Report.Slot(string(slot.Name), created.Outcome.String(), reason, Bad)
	return identity.Object{}, a.settleWithout(slot, auditID, created, reason)
}

// settleWithout records that there is no acknowledgement. The refusal is the fact, and
// the error's text is for people: a disk that takes only one of them keeps the fact.
func (a *attempt) settleWithout(slot render.Slot, auditID string, created kube.Created, reason string) error {
	said := redact.Cut(reason)
	var end error = &Uncertain{Slot: slot.Name, Object: slot.Object, AuditID: auditID, Reason: said}
	if created.Outcome == kube.Rejected || created.Outcome == kube.Unsent {
		end = &Rejected{Slot: slot.Name, Object: slot.Object, Reason: said}
		rejection := journal.Rejection{Code: created.Code, Reason: a.safe(created.Reason), NotSent: created.Outcome == kube.Unsent}
		if err := a.records.Reject(slot.Name, rejection, time.Now()); err != nil {
			return &NotDurable{Err: err, Beside: end}
		}
	}
	if err := a.records.CreateError(slot.Name, reason); err != nil {
		return &NotDurable{Err: err, Beside: end}
	}
	return end
}

// release lets a suspended Job run: the release is durable before the one patch
// that tests the UID (A4.2c). Whatever comes of the patch, the receipt lets
// cleanup remove the Job, so a failed one is an ordinary failure.
func (a *attempt) release(ctx context.Context, j *job) error {
	if err := stopped(ctx, a.Timeout); err != nil {
		return err
	}
	if err := a.records.Release(j.slot.Name, time.Now()); err != nil {
		return &NotDurable{Err: err}
	}
	patching, done := a.untilGivenUp(ctx)
	defer done()
	if err := a.Cluster.Unsuspend(patching, j.object); err != nil {
		return &Failed{Slot: j.slot.Name, Reason: "releasing the Job: " + a.words(err.Error())}
	}
	j.released = time.Now()
	a.show(j, "released", "", Busy)
	return nil
}

// stopped returns the end that a done context means, or nil while nothing stops
// the run.
func stopped(ctx context.Context, timeout time.Duration) error {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(context.Cause(ctx), errTimeout):
		return &Failed{Reason: timedOut(timeout)}
	default:
		return ErrInterrupted
	}
}
