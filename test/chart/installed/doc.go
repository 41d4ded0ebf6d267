// Package installed installs flux-plunger's chart with Helm's own code on a real
// control plane, where its Pods and its hook's Job run the program under the
// chart's own ServiceAccounts. It is made of tests only.
package installed
