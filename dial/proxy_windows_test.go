package dial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProxyCommandWithQuotes: the path of a program, and its arguments, may have spaces.
func TestProxyCommandWithQuotes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "Program Files")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := writeFile(t, filepath.Join(dir, "proxy.bat"),
		"@echo off\r\necho %~1,%~2 >&2\r\nexit 3\r\n")
	for _, command := range []string{`"` + script + `" %h "two words"`,
		`call "` + script + `" h "two words"`} {
		d, err := New(t.Context(), Target{Host: "h"}, &Config{ConfigFile: "none",
			Options: []string{"ProxyCommand=" + command}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Dial(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "(exit status 3): h,two words") {
			t.Errorf("%s: %v", command, err)
		}
	}
}
