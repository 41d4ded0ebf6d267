// Package e2e proves flux-plunger against a real control plane and a
// helm-controller: the stand-in, or the real binary that HELM_CONTROLLER names.
//
// It owns tests only. Its invariants: flux-plunger runs under the permissions of
// config/rbac and nothing more; what is left of a release is asked of the API
// server, never of a controller; a race is made by stopping somebody at a named
// point or a request, never by sleeping.
package e2e
