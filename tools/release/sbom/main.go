// Command sbom judges whether an SBOM tells the truth about its binary.
//
// Its invariant: it accepts only an SBOM that lists exactly the modules, each in
// its version, that the Go linker recorded in the binary. One that was made of
// another build, or of go.mod, is refused. It needs no network.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: sbom BINARY=SBOM …")
	}
	for _, arg := range args {
		binary, sbom, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("reading %q: want BINARY=SBOM", arg)
		}
		linked, err := modules(binary)
		if err != nil {
			return err
		}
		listed, err := components(sbom)
		if err != nil {
			return err
		}
		if missing, more := without(linked, listed), without(listed, linked); len(missing)+len(more) > 0 {
			return fmt.Errorf("%s does not describe %s: it lacks %v and lists %v that the binary does not hold", sbom, binary, missing, more)
		}
		fmt.Fprintf(stdout, "%s lists the %d modules of its binary\n", sbom, len(linked))
	}
	return nil
}

// modules are those in the binary, each as path@version.
func modules(binary string) ([]string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading the build information of %s: %w", binary, err)
	}
	var found []string
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		found = append(found, module.Path+"@"+module.Version)
	}
	return found, nil
}

// components are those in the SBOM but Go's standard library, which the binary
// records as the version of Go.
func components(sbom string) ([]string, error) {
	raw, err := os.ReadFile(sbom)
	if err != nil {
		return nil, fmt.Errorf("reading the SBOM: %w", err)
	}
	var document struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, fmt.Errorf("decoding the SBOM %s: %w", sbom, err)
	}
	var found []string
	for _, component := range document.Components {
		if component.Name != "std" {
			found = append(found, component.Name+"@"+component.Version)
		}
	}
	return found, nil
}

// without returns what is in a and not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
