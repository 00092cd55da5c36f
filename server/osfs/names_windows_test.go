package osfs_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
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
		"/f~1", "/F~1", "/\xff", "/NUL", "/nul.txt", "/CON", "/d/COM1", "/CONIN$", "/COM\u00b9", "/f\x01", "/f?", "/f*", "/<",
		"/NUL:", "/d/../PRN",
	} {
		errs := everything(f, name)
		maps.Copy(errs, changes(f, name))
		for what, err := range errs {
			if what == "list" { // of the directory above
				continue
			}
			// which is answered as BAD_MESSAGE, as sftp-server answers impossible names
			if !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
	for name, text := range map[string]string{full: "secret", filepath.Join(dir, "f"): "inside"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

// TestJunctionsLeadNowhere: to a client a junction is a link, which is not followed, not even to
// what is inside. Removing it leaves what is behind it.
func TestJunctionsLeadNowhere(t *testing.T) {
	f, dir, outside := served(t)
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"out": outside, "in": filepath.Join(dir, "d")} {
		write(t, filepath.Join(target, "f"), "behind")
		testenv.Junction(t, target, filepath.Join(dir, name))
		for what, err := range everything(f, "/"+name+"/f") {
			if err == nil {
				t.Errorf("%s goes through %s", what, name)
			}
		}
		if info, err := f.Lstat(t.Context(), "/"+name); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if err := f.Rmdir(t.Context(), "/"+name); err == nil {
			t.Errorf("%s is a directory", name)
		}
		if err := f.Remove(t.Context(), "/"+name); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(filepath.Join(target, "f")); err != nil || string(got) != "behind" {
			t.Errorf("behind %s is %q, %v", name, got, err)
		}
	}
}

// TestRealPathOfJunctions: what leads to another drive or directory is resolved where the whole
// system is served, and stays as written where one directory is.
func TestRealPathOfJunctions(t *testing.T) {
	f, dir, outside := served(t)
	testenv.Junction(t, outside, filepath.Join(dir, "j"))
	client := func(name string) string { return "/" + filepath.ToSlash(name) }
	for _, c := range []struct {
		f          *osfs.FS
		name, want string
	}{
		{osfs.Host(), client(filepath.Join(dir, "j", "f")), client(filepath.Join(outside, "f"))},
		{osfs.Host(), client(filepath.Join(dir, "j")), client(outside)},
		{f, "/j/f", "/j/f"},
	} {
		if got, err := c.f.RealPath(t.Context(), c.name); err != nil || got != c.want {
			t.Errorf("%s is %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}

// changes tries every change of what has a name, or of what would get it.
func changes(f *osfs.FS, name string) map[string]error {
	ctx := context.Background()
	return map[string]error{
		"mkdir":           f.Mkdir(ctx, name, wire.Attrs{}),
		"rename":          f.Rename(ctx, name, "/new"),
		"rename to":       f.Rename(ctx, "/f", name),
		"posix-rename to": f.PosixRename(ctx, "/f", name),
		"link":            f.Link(ctx, name, "/new"),
		"link to":         f.Link(ctx, "/f", name),
		"symlink":         f.Symlink(ctx, "f", name),
		"remove":          f.Remove(ctx, name),
		"rmdir":           f.Rmdir(ctx, name),
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
