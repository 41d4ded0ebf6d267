// Package helmcontroller is a stand-in for Flux's helm-controller, for tests. It
// really installs, upgrades, rolls back and uninstalls charts through the Helm
// SDK, and it reproduces, from reading and measuring the 1.5 and 1.6 line, every
// habit that flux-plunger was designed around (B5.10):
//
//   - a latest stored revision that the status does not know is classed as
//     unmanaged: status.history is cleared and an upgrade is tried;
//   - each look ends in up to three requests: conditions (optimistic lock), then
//     finalizers (the whole list, no lock), then the rest of the status;
//   - a delete skips the uninstall in six cases (F1 to F6) and drops the
//     finalizer all the same;
//   - every object is looked at when it starts, terminating ones too, with or
//     without its own finalizer.
//
// Its invariant: what it does to the cluster is decided by the object it read
// and by Helm's own code, never by knowledge of the test. Tests stop it at named
// points; they never tell it what to answer. What it leaves out (dependsOn,
// valuesFrom, chart templates, tests, drift) it refuses in words, so that no test
// can rest on it by accident.
//
// It must not import any package of the preflight or of flux-plunger: the two sides
// of a race may share nothing but the API server.
package helmcontroller
