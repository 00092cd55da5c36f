package localfs

import (
	"errors"
	"runtime"
	"testing"
)

// TestCheckName: what is no name anywhere is none here; what only Windows reserves is a name
// elsewhere, and is told apart there.
func TestCheckName(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "/", "a\x00"} {
		if err := CheckName(name); !errors.Is(err, ErrBadName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, want := range map[string]error{"CON": errDevice, "nul.txt": errDevice, "a.": errEnd,
		"a:b": errCharacter} {
		if runtime.GOOS != "windows" {
			want = nil
		}
		if err := CheckName(name); !errors.Is(err, want) ||
			errors.Is(err, ErrBadName) != (want != nil) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
