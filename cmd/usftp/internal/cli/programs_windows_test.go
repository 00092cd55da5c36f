package cli

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/usftp/usftp/internal/ui"
)

// batch makes a batch file in a directory with a space in its name, and returns its path.
func (d *desk) batch(name, text string) string {
	d.t.Helper()
	file := filepath.Join(d.home, "Program Files", name)
	d.write(file, "@echo off\r\n"+text+"\r\n")
	return file
}

// TestFindExecOnWindows: cmd.exe, which runs batch files, would take a part of a file's name for a
// command, so it gets no names.
func TestFindExecOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write(filepath.Join(d.dir, "file"), "text")
	d.put(`/a"&copy file stolen&"`, "text")
	script := d.batch("script.bat", "copy file copied")
	for _, end := range [][]string{{"{}", ";"}, {"{}", "+"}, {"--file={}", ";"}} {
		o := d.run(ui.ExitFailed, append([]string{"find", "testhost:/", "-exec", script}, end...)...)
		d.says(o, "script.bat", "batch file")
	}
	d.run(ui.ExitOK, "find", "testhost:/", "-type", "f", "-exec", script, ";")
	if names := namesIn(t, d.dir); !slices.Equal(names, []string{"copied", "file"}) {
		t.Errorf("there are %q", names)
	}
}
