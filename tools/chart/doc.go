// Package chart is a module of its own for what tests flux-plunger's chart with
// the tools of its users: helm-unittest (Helm 3) and Prometheus's rule language.
// What they need is nothing that the commands link.
//
// It must not import anything of the product.
package chart
