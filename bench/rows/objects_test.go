package rows

import (
	"os/exec"
	"slices"
	"testing"
)

func TestObjectRowsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Objects() {
		if seen[row.Name] || row.Title == "" || len(row.Bars) == 0 {
			t.Errorf("row %q is there twice, or has no title or no bar", row.Name)
		}
		seen[row.Name] = true
		var names []string
		for _, c := range row.Contestants {
			names = append(names, c.Name())
			if (c.Command != "") != (row.Work == Commands) {
				t.Errorf("row %s: %s has the command %q", row.Name, c.Name(), c.Command)
			}
			for _, command := range []string{c.Before, c.Command} {
				if out, err := exec.Command("sh", "-n", "-c", command).CombinedOutput(); err != nil {
					t.Errorf("row %s: %s: %v: %s", row.Name, command, err, out)
				}
			}
		}
		needed := []string{row.ObjectOurs()}
		for _, bar := range row.Bars {
			if (bar.AtLeast > 0) == (bar.AtMost > 0) {
				t.Errorf("row %s: %s has no bound, or two", row.Name, bar.Figure)
			}
			if bar.Against != "" {
				needed = append(needed, bar.Against)
			}
		}
		for _, name := range needed {
			if !slices.Contains(names, name) {
				t.Errorf("row %s: %s does not run", row.Name, name)
			}
		}
	}
}
