package connect

import "testing"

// TestBelowHere: the current directory of a drive is not its root, and a share has none.
func TestBelowHere(t *testing.T) {
	for dir, want := range map[string]string{"C:": "C:a", "C:/": "C:/a", `\\server\share`: `\\server\share/a`,
		`\\?\C:`: `\\?\C:/a`, "d": "d/a", "": "a"} {
		if is := BelowHere(dir, "a"); is != want {
			t.Errorf("BelowHere(%q) is %q, want %q", dir, is, want)
		}
	}
}
