// Package decide answers the questions of a preflight run: what became of a
// Job, is this the candidate's image, whose selector would claim our Pods, is
// another preflight under way, and did the cluster change what we asked for.
//
// Its invariant: every answer is a pure function of what was read. It has no
// client, no file system and no clock; times come in as durations that the
// caller measured with its own monotonic clock, since a cluster's clock and an
// operator's need not agree. No answer branches on the text of a message: the
// texts are for people, and they may hold control characters and Secret values
// that the caller escapes and redacts.
//
// It must not import a client, the file system, the evidence or the renderer.
package decide
