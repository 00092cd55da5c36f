//go:build unix

package sshd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStrictModes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ssh", "keys")
	link := filepath.Join(dir, "link")
	for _, err := range []error{os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600),
		os.Symlink(file, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		path string
		mode os.FileMode
		says string
	}{
		"safe":                      {file, 0o600, ""},
		"readable":                  {file, 0o644, ""},
		"a writable file":           {file, 0o620, "others can write to " + file},
		"a writable, sticky file":   {file, 0o666 | os.ModeSticky, "others can write to " + file},
		"a writable directory":      {filepath.Dir(file), 0o702, "others can write to"},
		"a sticky directory":        {filepath.Dir(file), 0o777 | os.ModeSticky, ""},
		"a writable one above that": {dir, 0o775, "others can write to " + dir + " "},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := os.Stat(test.path)
			if err == nil {
				err = os.Chmod(test.path, test.mode)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(test.path, before.Mode())
			for _, name := range []string{file, link} {
				err := StrictModes(name)
				if (err == nil) != (test.says == "") ||
					err != nil && !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	if os.Getuid() == 0 {
		if err := os.Chown(file, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if err := StrictModes(file); err == nil || !strings.Contains(err.Error(), "somebody else") {
			t.Errorf("a stranger's file: %v", err)
		}
	}
}
