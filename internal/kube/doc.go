// Package kube is the one package that sends requests to a cluster.
//
// It owns clients made from given bytes, the exact writes (create once, delete
// by identity, patch by identity), metadata-only reads, and the one judgement of
// what an answer proves. Refused, UnknownOutcome, Conflict, Gone, NotSent and
// Unreadable are types; no caller reads a message to tell them apart.
//
// Its invariants: a write names an object by UID, and an empty UID is an error
// before anything is sent; one call of a write is at most one request on the
// wire; an answer without the Audit-ID that the request carried proves nothing;
// what a read returns is identity and never the contents of a Secret (A6.8).
//
// It must not import any package of the two halves, nor a manager or a cache:
// it is given identities and returns what was answered, and decides nothing.
package kube
