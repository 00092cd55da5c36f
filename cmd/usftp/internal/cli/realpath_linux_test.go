package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// On a host that refuses to tell real paths, a shell's paths begin where the login does, and a
// directory can be mounted.
func TestHostThatTellsNoRealPaths(t *testing.T) {
	t.Parallel()
	server := opensshd.Find(t, "sftp-server") + " -P realpath"
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	writeFile(t, filepath.Join(dir, "sub", "file"), []byte("contents"))
	cmd := command(t, dir, "shell", "-D", server, "far:")
	cmd.Stdin = strings.NewReader("cd sub\nls\nget file copy\ncd ..\nls sub\ncd missing\nls -1\n")
	o := finish(t, cmd)
	if got := strings.Count(o.stdout, "file\n"); got != 2 || !strings.Contains(o.stdout, "copy\nsub\n") ||
		!strings.Contains(o.stderr, "missing: no such file") ||
		string(readFile(t, filepath.Join(dir, "copy"))) != "contents" {
		t.Errorf("the shell: %+v", o)
	}

	m := mountHost(t, "far", "-D", server)
	writeFile(t, m.path("a"), []byte("in a mount"))
	must(t, os.Rename(m.path("a"), m.path("b")))
	if got := string(readFile(t, filepath.Join(m.far, "b"))); got != "in a mount" {
		t.Errorf("the mount has written %q", got)
	}
}
