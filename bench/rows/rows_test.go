package rows

import (
	"os/exec"
	"slices"
	"testing"
)

// TestRowsAreWhole checks what the report relies on: names that are told apart, targets against
// someone who runs, commands that the shell can parse.
func TestRowsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range All() {
		if seen[row.Name] {
			t.Errorf("two rows are named %q", row.Name)
		}
		seen[row.Name] = true
		if row.Title == "" || row.Bytes <= 0 {
			t.Errorf("row %s: no title or no size", row.Name)
		}
		var names []string
		for _, contestant := range row.Contestants {
			if slices.Contains(names, contestant.Name) {
				t.Errorf("row %s: two contestants are named %q", row.Name, contestant.Name)
			}
			names = append(names, contestant.Name)
			if out, err := exec.Command("sh", "-n", "-c",
				contestant.Command).CombinedOutput(); err != nil {
				t.Errorf("row %s: %s: %v: %s", row.Name, contestant.Command, err, out)
			}
		}
		needed := []string{row.Ours}
		for name, apart := range row.Apart {
			needed = append(needed, name)
			if row.Total(name) <= 0 || row.Total(name) > row.Total(row.Ours) ||
				apart.Beside != "" && row.Link == nil {
				t.Errorf("row %s: %s copies %d bytes, served by %q", row.Name, name,
					row.Total(name), apart.Beside)
			}
		}
		for _, target := range row.Targets {
			needed = append(needed, target.Against, target.OrAgainst)
		}
		for _, name := range needed {
			if name != "" && !slices.Contains(names, name) {
				t.Errorf("row %s: a target names %q, who does not run", row.Name, name)
			}
		}
	}
}

func TestTransportRowsExist(t *testing.T) {
	var names []string
	for _, row := range All() {
		names = append(names, row.Name)
	}
	for _, row := range Serve() {
		names = append(names, row.Name)
	}
	for _, name := range Transport() {
		if !slices.Contains(names, name) {
			t.Errorf("there is no row %q", name)
		}
	}
}
