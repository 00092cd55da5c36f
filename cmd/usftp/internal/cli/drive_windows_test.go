package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/ui"
)

// TestDrivesOnWindows: a drive alone is its current directory, not its root.
func TestDrivesOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	drive := filepath.VolumeName(d.dir)
	for _, name := range []string{"/one", "/two", "/tree/file", "/home/x"} {
		d.put(name, "text")
	}
	d.run(ui.ExitOK, "cp", "testhost:/one", "testhost:/two", drive)
	d.want("one", d.here("one"), "text")
	d.run(ui.ExitOK, "cp", "-r", "testhost:/tree", drive)
	d.want("the tree", d.here(`tree\file`), "text")
	d.run(ui.ExitOK, "cp", "-r", "testhost:/home", drive)
	d.want("the home", d.here(`home\x`), "text")
	cmd := d.command("shell", "testhost")
	cmd.Stdin = strings.NewReader("get /one /home/x " + drive + "\r\n")
	if o := finish(t, cmd); o.code != 0 {
		t.Errorf("%+v", o)
	}
	d.want("x", d.here("x"), "text")
	d.run(ui.ExitOK, "cp", "--hosts", "testhost", ":/one", drive)
	d.want("of each host", d.here(`testhost\one`), "text")
	d.run(ui.ExitOK, "cp", "-r", drive, "testhost:/up")
	d.want("what is in the drive's directory", d.on("/up/one"), "text")
}
