package localfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestGlobOnWindows: a backslash quotes, as in patterns elsewhere, and case does not matter.
func TestGlobOnWindows(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{`a-1.csv`, `B-2.CSV`, `c[1].csv`, `plain`, `.hidden.csv`,
		`Ünï.csv`, `sub dir\d.csv`, `sub[1]\e.txt`, `sub1\f.txt`} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	slashed := filepath.ToSlash(dir)
	drive, below := slashed[:2], slashed[2:]
	share := `\\localhost\` + drive[:1] + "$" + dir[2:]
	for pattern, want := range map[string][]string{
		"*.CSV":       {"B-2.CSV", "a-1.csv", "c[1].csv", "Ünï.csv"},
		`a\-*`:        {"a-1.csv"},
		`c\[1\]*`:     {"c[1].csv"},
		"[A-b]*":      {"B-2.CSV", "a-1.csv"},
		"[^a-b]*.csv": {"c[1].csv", "Ünï.csv"},
		"üN?.*":       {"Ünï.csv"},
		"*.*": {"B-2.CSV", "a-1.csv", "c[1].csv", "plain", "sub dir", "sub1",
			"sub[1]", "Ünï.csv"},
		".*":                            {".hidden.csv"},
		`sub\ dir/?.csv`:                {`sub dir\d.csv`},
		"SUB */*":                       {`sub dir\d.csv`},
		`sub\[1]/*.txt`:                 {`sub[1]\e.txt`},
		drive + "b*":                    {drive + "B-2.CSV"},
		drive + below + "/b*":           {dir + `\B-2.CSV`},
		filepath.ToSlash(share) + "/b*": {share + `\B-2.CSV`},
		"*.none":                        nil,
	} {
		got, err := Glob(pattern)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Glob(%q) = %q, %v; want %q", pattern, got, err, want)
		}
	}
}
