package osfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWindowsNames: what Windows gives a meaning beyond that of a name leads nowhere, whether it
// names something outside, a device, or a file inside in other words.
func TestWindowsNames(t *testing.T) {
	f, dir, outside := served(t)
	write(t, filepath.Join(dir, "f"), "inside")
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(outside, "f") // with a drive letter
	drive := filepath.VolumeName(full)
	for _, name := range []string{
		`/..\outside\f`, `/d\..\..\outside\f`, `/d/..\..\outside\f`, `/\..\outside\f`,
		"/" + full, "/" + filepath.ToSlash(full), "/" + drive, "/" + drive + "f", "/d/" + drive,
		`/` + full[len(drive):], `/\\?\` + full, `/\\.\` + full, `/\??\` + full, `//?/` + full,
		`/\\localhost\c$\f`, `/d\f`,
		"/f::$DATA", "/f:stream", "/d::$INDEX_ALLOCATION", "/f:",
		"/f.", "/f ", "/f. .", "/d./f", "/d /f", "/... ", "/.. /outside/f", "/.. ./outside/f",
		"/NUL", "/nul.txt", "/CON", "/d/COM1", "/CONIN$", "/f\x01", "/f?", "/f*", "/<",
		"/NUL:", "/d/../PRN",
	} {
		for what, err := range everything(f, name) {
			if what == "list" { // of the directory above
				continue
			}
			if err == nil {
				t.Errorf("%s %q went through", what, name)
			}
		}
	}
	for name, text := range map[string]string{full: "secret", filepath.Join(dir, "f"): "inside"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

// TestRmdirOfAFile: the status is that of sftp-server, "no such file".
func TestRmdirOfAFile(t *testing.T) {
	f, dir, _ := served(t)
	write(t, filepath.Join(dir, "f"), "inside")
	if err := f.Rmdir(t.Context(), "/f"); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}
