// Package decide holds the one decision of flux-plunger: from what was read
// about a HelmRelease to the single next step, with its reason (B1.1).
//
// # The states of a release
//
//	            forgotten (B5.8)            history = latest stored (B3.4)
//	[quiet] ───────────────────► [fenced] ───────────────────────────────► [quiet]
//	                              │    ▲
//	            reclaim: acquire  │    │ lift
//	                              ▼    │
//	                           [held: suspended and fenced]
//
//	[fenced] or [held] ── delete ──► [terminating: lifted, reminded, proven] ──► gone
//
// Under repair a release never leaves the upper row: the status of its latest
// revision is rewritten while it is fenced. Both strategies, the reconciler and
// the drain ask the same function, [Next]; they differ in two values of
// [Input].
//
// # Invariant
//
// Every function here is a pure function of its arguments. A step that deletes
// or rewrites is only ever returned for a live release whose own storage says
// that Helm refuses to upgrade from it; a fence of a terminating release is
// only dropped on proof, on another manager's suspension, or by the declared
// policy. Whatever is missing from the input is asked for by a reading step,
// never assumed.
//
// It must not import os, net, log, any k8s.io module, controller-runtime or the
// clock: the types here are plain values, filled by package gather.
package decide
