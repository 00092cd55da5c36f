package sftptest

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"
)

func TestFilesForTests(t *testing.T) {
	f := newFiles("/home/user")
	f.WriteFile("a/b", []byte("hello"))
	f.Symlink("b", "a/c")
	f.Mkdir("/d")
	want(t, "names", strings.Join(f.List(), " "),
		"/d/ /home/ /home/user/ /home/user/a/ /home/user/a/b /home/user/a/c -> b")
	if err := errors.Join(f.Append("a/c", []byte("!!")), f.Resize("a/b", 6),
		f.SetModTime("a/b", time.Unix(5, 0))); err != nil {
		t.Error(err)
	}
	data, err := f.ReadFile("/home/user/a/c")
	want(t, "through the link", fmt.Sprintf("%s %v", data, err), "hello! <nil>")
	if a, err := f.Lstat("a/b"); err != nil || a.MTime != 5 || a.Size != 6 {
		t.Errorf("Lstat: %+v, %v", a, err)
	}
	if err := f.Rename("a", "/d/e"); err != nil || f.Exists("a") || !f.Exists("/d/e/b") {
		t.Errorf("not renamed: %v, %q", err, f.List())
	}
	if err := f.Rename("a", "b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there is renamed: %v", err)
	}
	f.Remove("/d/e")
	if f.Exists("/d/e") {
		t.Error("a is still there")
	}
	_, err = f.ReadFile("a/b")
	want(t, "error", err, "read a/b: no such file")
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	if err := f.SetMode("/d", fs.ModeDevice|fs.ModeCharDevice|0o600); err != nil {
		t.Error(err)
	}
	if a, _ := f.Lstat("/d"); a.Permissions != 0o020600 {
		t.Errorf("a device of mode %o", a.Permissions)
	}
}
