package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

//go:embed README.md.tmpl
var readmeTemplate string

// value is one row of the README's table.
type value struct{ Key, Default, Text string }

// readme renders the chart's README.
func readme(dir string) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the values: %w", err)
	}
	values, err := tabulate(raw)
	if err != nil {
		return nil, err
	}
	page, err := template.New("README").Parse(readmeTemplate)
	if err != nil {
		return nil, fmt.Errorf("parsing the README's template: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("rendering the README: %w", err)
	}
	return out.Bytes(), nil
}

// tabulate turns the values and their comments into rows, in the file's order. A
// value without a comment is an error: nobody would know what it does.
func tabulate(raw []byte) ([]value, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return nil, fmt.Errorf("parsing the values: %w", err)
	}
	return rows(document.Content[0], "")
}

func rows(mapping *yaml.Node, prefix string) ([]value, error) {
	var table []value
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		path, comment := prefix+key.Value, text(key.HeadComment)
		if comment == "" && node.Kind == yaml.MappingNode && len(node.Content) > 0 {
			below, err := rows(node, path+".")
			if err != nil {
				return nil, err
			}
			table = append(table, below...)
			continue
		}
		if comment == "" {
			return nil, fmt.Errorf("value %s has no comment: say what it does", path)
		}
		var content any
		if err := node.Decode(&content); err != nil {
			return nil, fmt.Errorf("decoding value %s: %w", path, err)
		}
		encoded, err := json.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("encoding value %s: %w", path, err)
		}
		table = append(table, value{Key: path, Default: string(encoded), Text: comment})
	}
	return table, nil
}

// text is the last paragraph of a comment in one line: what stands before it, the
// head of the file for example, is not about the value.
func text(comment string) string {
	paragraphs := strings.Split(strings.TrimSpace(comment), "\n\n")
	lines := strings.Split(paragraphs[len(paragraphs)-1], "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "#"))
	}
	return strings.ReplaceAll(strings.Join(lines, " "), "|", `\|`)
}
