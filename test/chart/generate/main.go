// Command generate writes what is derived from flux-plunger's chart: the chart's
// README from the comments of its values.yaml, and the Kustomize form from its
// templates. "make chart" runs it, and a test fails when what is checked in
// differs from what it would write.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(context.Background(), "."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// chartDir is where the chart is, below the repository's root.
const chartDir = "charts/flux-plunger"

func run(ctx context.Context, root string) error {
	files, err := derive(ctx, root)
	if err != nil {
		return err
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("making the folder of %s: %w", path, err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return nil
}

// derive returns the text of every derived file, by path below root.
func derive(ctx context.Context, root string) (map[string][]byte, error) {
	readme, err := readme(filepath.Join(root, chartDir))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{filepath.Join(chartDir, "README.md"): readme}
	manifests, err := kustomize(ctx, filepath.Join(root, chartDir))
	if err != nil {
		return nil, err
	}
	for path, text := range manifests {
		files[path] = text
	}
	return files, nil
}
