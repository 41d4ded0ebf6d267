package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The README shows how the demo ends.
func TestReadmeShowsTheEnd(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "\n"+summary+"\n") {
		t.Errorf("README.md does not show the end of the demo as it is:\n%s", summary)
	}
}
