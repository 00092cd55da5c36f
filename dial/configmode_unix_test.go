//go:build unix

package dial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigOthersMayWrite: as with ssh, the user's configuration and what a configuration includes
// must not be others' to write; a file named by -F may be.
func TestConfigOthersMayWrite(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, filepath.Join(home, ".ssh", "config"), "Include more\nPort 22\n")
	more := writeFile(t, filepath.Join(home, ".ssh", "more"), "User u\n")
	for _, test := range []struct {
		name, file string
		mode       os.FileMode
		named      bool // by -F
		says       string
	}{
		{"safe", file, 0o644, false, ""},
		{"the user's", file, 0o664, false, "bad owner or permissions"},
		{"the user's, to anybody", file, 0o646, false, "bad owner or permissions"},
		{"included", more, 0o664, false, "bad owner or permissions"},
		{"included by a file named by -F", more, 0o664, true, "bad owner or permissions"},
	} {
		if err := os.Chmod(test.file, test.mode); err != nil {
			t.Fatal(err)
		}
		c := &Config{Env: withoutSSH(home)}
		if test.named {
			c.ConfigFile = writeFile(t, filepath.Join(home, "named"), "Include "+more+"\n")
			if err := os.Chmod(c.ConfigFile, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		_, err := settingsOf(t, Target{Host: "h"}, c)
		if (err == nil) != (test.says == "") || err != nil && (!strings.Contains(err.Error(),
			test.says) || !strings.Contains(err.Error(), test.file)) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err := os.Chmod(test.file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
