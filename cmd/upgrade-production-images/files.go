//go:build !holdfast_killpoints

package main

import "github.com/holdfast-project/holdfast/internal/durable"

// files is the file system that holds the evidence.
func files() durable.FS { return durable.OS() }
