// Package render turns a chart, its values, a candidate image and a profile
// into the exact objects of one preflight attempt (A4.2 to A4.4).
//
// It owns the profile format, the only way into the Helm SDK that a preflight
// has, and every rule on how a Job is derived from a chart's Pod template. Its
// invariant: what it returns is complete and final but for the plan hash, which
// withPlanHash sets on sending; nothing is filled in, defaulted or looked up
// later, so the plan on disk is what the cluster is asked for. It sends nothing
// and reads nothing but the chart: the cluster's capabilities are given to it,
// and Helm's lookup finds nothing.
//
// Secret values stay in memory. No type of this package prints them, no error
// carries them, and no manifest that may be written to disk contains them.
//
// It must not import the evidence, the journal or the client.
package render
