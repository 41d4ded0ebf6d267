// Package plunger runs flux-plunger: a manager that watches HelmReleases, a
// reconciler that walks each of them, and the stop.
//
// Its invariants: the cache only says which release to look at and that nothing
// can need doing (B1.2); Secrets are never watched or cached; only one that led
// drains, and only after a stop that it was asked for (B6.4); the Lease is given
// up as the very last request, or not at all (B6.6).
//
// It must not import unfence, nor any package of the preflight. Writes happen in
// package write, decisions in package decide.
package plunger
