package osfs

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// found is what Go says of what Windows has found.
type found struct {
	fs.FileInfo
	mode       fs.FileMode
	attributes uint32
}

func (f found) Mode() fs.FileMode { return f.mode }
func (f found) Sys() any {
	return &syscall.Win32FileAttributeData{FileAttributes: f.attributes}
}

// TestMarkJunction: a junction is a link, and nothing else becomes one: neither a directory with
// more to it, such as one of OneDrive, nor a file. Nor does anything look as if all could write it.
func TestMarkJunction(t *testing.T) {
	const dir, reparse = syscall.FILE_ATTRIBUTE_DIRECTORY, syscall.FILE_ATTRIBUTE_REPARSE_POINT
	info, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		found
		want fs.FileMode
	}{
		{found{info, fs.ModeIrregular | 0o666, dir | reparse}, fs.ModeSymlink | 0o644},
		{found{info, fs.ModeDir | fs.ModeIrregular | 0o777, dir | reparse},
			fs.ModeDir | fs.ModeIrregular | 0o755},
		{found{info, fs.ModeIrregular | 0o666, reparse}, fs.ModeIrregular | 0o644},
		{found{info, fs.ModeDir | 0o777, dir}, fs.ModeDir | 0o755},
		{found{info, 0o666, 0}, 0o644},
		{found{info, 0o444, 0}, 0o444},
		{found{info, fs.ModeSymlink | 0o666, dir | reparse}, fs.ModeSymlink | 0o644},
	} {
		if got := markListed(c.found).Mode(); got != c.want {
			t.Errorf("%v with %#x is %v, want %v", c.mode, c.attributes, got, c.want)
		}
	}
}

// leading is a directory in which j leads to another drive.
type leading struct {
	system
	dir fs.FileInfo
}

func (l leading) Lstat(name string) (fs.FileInfo, error) {
	if name == "j" {
		return found{l.dir, fs.ModeSymlink, 0}, nil
	}
	return l.system.Lstat(name)
}

func (leading) Readlink(string) (string, error) { return `D:\secret`, nil }

// TestLinkToADrive: a link that may not be followed stays as written.
func TestLinkToADrive(t *testing.T) {
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	got, err := tree{leading{root, info}}.realPath(t.Context(), "/j/f")
	if err != nil || got != "/j/f" {
		t.Errorf("/j/f is %s, %v", got, err)
	}
}
