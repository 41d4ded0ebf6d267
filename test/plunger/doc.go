// Package plunger proves flux-plunger from outside: the built command, as a
// process, under the permissions of config/rbac, on a real control plane with a
// helm-controller, the stand-in or the binary that HELM_CONTROLLER names.
//
// It owns tests only. Its invariants: every flux-plunger reaches the API server
// through a proxy of its own, so that its requests are known one by one and a
// delete, a crash or a stop can be put before or after any of them; nothing is
// made to happen by sleeping; what is left of a release is asked of the API
// server, never of a controller.
package plunger
