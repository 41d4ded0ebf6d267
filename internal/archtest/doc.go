// Package archtest holds the repository to its own shape: which package may
// know which, how long a file and a function may be, and that no package keeps
// mutable state. It owns the table of rules and nothing else.
//
// Its invariant: a rule that cannot be broken by a planted example is not a
// rule. It is made of tests only and is imported by nothing.
package archtest
