// Package kube makes the requests to a cluster: every write that was decided here,
// and every live read that a decision rests on. Beside it are only flux-plunger's
// watch and its hold on the Lease, which are controller-runtime's and client-go's
// and are wired in internal/plunger.
//
// It owns clients made from given bytes, the exact writes (create once, delete
// by identity, patch by identity), metadata-only reads, and the one judgement of
// what an answer proves. Refused, UnknownOutcome, Conflict, Gone, NotSent and
// Unreadable are types; no caller reads a message to tell them apart.
//
// There are two clients, because their callers need opposite things of one.
//
// [Client] is for a preflight and its cleanup, which keep evidence. That a create is
// intended is on the disk with its Audit-ID before it is sent, and its outcome after
// (A2.5, A3.4), so that one call must be one request: it works on bytes and on what the
// innermost transport saw, and no layer above can send a body twice or answer in the
// server's place. Its answers are judged in classify.go.
//
// [Objects] is for flux-plunger, which keeps no record: each of its writes rests on a
// live read, carries the preconditions of that, and is decided again from the next one.
// It needs what client-go brings along, whole objects of kinds that it has no types for,
// apply with its managers, metadata, lists of any size, and takes client-go's clients
// with a guard below them. What they made of an answer is judged in verdict.go, by the
// same rules.
//
// Its invariants: a write names an object by UID, and an empty UID is an error
// before anything is sent; one call of a write is at most one request on the
// wire; an answer without the Audit-ID that the request carried proves nothing; no
// contents of a Secret come back (A6.8), but to GetSecret, for the repair of what is
// in it (B10.1), in a value of which no format verb shows more than the name.
//
// It must not import any package of one of the two commands, nor a manager or a cache:
// it is given identities and returns what was answered, and decides nothing.
package kube
