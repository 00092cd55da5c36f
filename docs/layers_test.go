package docs_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var layerName = regexp.MustCompile(`\[([\w./]+)\]\(\.\.(?:/[\w./]+)?\)|(internal/\w+)`)

// TestLayers: the tables in architecture.md name every package, from the bottom up, and none
// imports one that comes after it.
func TestLayers(t *testing.T) {
	const module = "github.com/usftp/usftp"
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rank := make(map[string]int)
	row, commands := 0, false
	for line := range strings.Lines(string(text)) {
		commands = commands || strings.HasPrefix(line, "| package | purpose |\n")
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.HasPrefix(line, "## ") {
			continue
		}
		row++
		for _, found := range layerName.FindAllStringSubmatch(cells[1], -1) {
			name := found[1] + found[2]
			if commands {
				name = "cmd/usftp/internal/" + name
			}
			rank[strings.TrimSuffix(module+"/"+name, "/.")] = row
		}
	}
	rank[module+"/cmd/usftp"] = row + 1 // the command is above its own packages
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`,
		"./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		imports := strings.Fields(line)
		name := imports[0]
		if name == module+"/docs" { // tests only
			continue
		}
		if rank[name] == 0 {
			t.Errorf("docs/architecture.md does not list %s", name)
		}
		for _, below := range imports[1:] {
			if strings.HasPrefix(below, module) && rank[below] > rank[name] {
				t.Errorf("%s imports %s, which docs/architecture.md lists above it", name, below)
			}
		}
	}
}
