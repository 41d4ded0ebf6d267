//go:build holdfast_killpoints

package durable

// OSWriting is OS with another write(2), for the tests of the real command in
// which the kernel writes less than it is given.
func OSWriting(write func(fd int, p []byte) (int, error)) FS { return osFS{write: write} }
