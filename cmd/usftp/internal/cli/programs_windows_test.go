package cli

import (
	"path/filepath"
	"slices"
	"strings"
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

// TestShellProgramsOnWindows: what quotes hold together stays together, in a command after "!" and
// in EDITOR, where the path of a program often has spaces.
func TestShellProgramsOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put("/file", "text")
	d.write(filepath.Join(d.dir, "a b", "c d"), "with spaces")
	script := d.batch("edit.bat", `echo edited as %1>"%~2"`)
	script = strings.TrimPrefix(script, filepath.VolumeName(script))
	plain := d.batch("plain.bat", `echo plainly>"%~1"`)
	for _, step := range []struct{ editor, command, on, stdout string }{
		{command: `!type "a b\c d"`, on: "text", stdout: "with spaces"},
		{command: `!echo a&&echo b`, on: "text", stdout: "a\r\nb"},
		{editor: `"` + script + `" "-x y"`, command: "edit file", on: "edited as \"-x y\"\r\n"},
		{editor: plain, command: "edit file", on: "plainly\r\n"},
	} {
		d.env = []string{"EDITOR=" + step.editor, "VISUAL="}
		cmd := d.command("shell", "testhost")
		cmd.Stdin = strings.NewReader(step.command + "\r\n")
		if o := finish(t, cmd); o.code != 0 || !strings.Contains(o.stdout, step.stdout) {
			t.Errorf("%s with EDITOR=%s: %+v", step.command, step.editor, o)
		}
		d.want("the file", d.on("/file"), step.on)
	}
}
