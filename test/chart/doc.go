// Package chart holds flux-plunger's chart to what the program is: it renders
// with Helm's own code and compares names, flags, durations and rights with the
// Go constants and the shipped roles. It is made of tests only; package installed
// below runs the chart on a real control plane.
package chart
