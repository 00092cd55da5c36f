package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// asWindows makes of a path what Windows makes of it: names lose what follows a colon, which would
// be a stream of the file, and dots and spaces at their end.
func asWindows(path string) string {
	elements := strings.Split(path, "/")
	for i, e := range elements {
		e, _, _ = strings.Cut(e, ":")
		elements[i] = strings.TrimRight(e, ". ")
	}
	return strings.Join(elements, "/")
}

// TestNamesThatAWindowsHostAlters: a host that is known to run Windows gets no file whose name it
// takes for another one's.
func TestNamesThatAWindowsHostAlters(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // which cannot have such files
	}
	stream, _ := serve(t, foldFS{memfs.New(0), asWindows}, nil)
	host := connect(t, stream, usftp.WithServerVersion("SSH-2.0-OpenSSH_for_Windows_9.5"))
	src, odd := t.TempDir(), []string{"CON.txt", "plain.", "plain:stream", "dir/plain ", "dir. /file"}
	fill(t, src, append(odd, "plain", "dir/plain")...)

	var failed []string
	var o transfer.Options
	o.NoTargetDirectory, o.Events = true, func(e transfer.Event) {
		if e.Kind == transfer.Failed {
			failed = append(failed, e.Target)
			if !errors.Is(e.Err, fs.ErrInvalid) || !strings.Contains(e.Err.Error(), "Windows") {
				t.Error(e.Err)
			}
		}
	}
	for range 2 { // the second time the target exists
		failed = nil
		uploadTree(t.Context(), host, src, "/dst", o)
		transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
			transfer.SyncOptions{Delete: true, TreeOptions: transfer.TreeOptions{Options: o}})
		if len(failed) != 2*len(odd) {
			t.Errorf("%q were refused", failed)
		}
	}
	for _, to := range []string{"/dst", "/dst/plain.", "/dst/plain:stream", "/dst/aux"} {
		if _, err := transfer.Copy(t.Context(), transfer.Remote(host, to),
			transfer.Local(filepath.Join(src, "plain.")), transfer.Options{}); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	have := namesOn(t, host.Client, "/dst")
	if !slices.Equal(have, []string{"dst", "dir", "plain", "plain"}) {
		t.Errorf("there are %q", have)
	}
	for _, name := range []string{"plain", "dir/plain"} {
		want, err := os.ReadFile(filepath.Join(src, name))
		if got := textOf(t, host.Client, "/dst/"+name); err != nil || got != string(want) {
			t.Errorf("%s is %q, want %q, %v", name, got, want, err)
		}
	}
}

// choosyFS refuses names that end in a dot, as usftp's server does on Windows, and OpenSSH's where
// a disk refuses them (EINVAL). Names in which one stands elsewhere, as in temporary ones, are
// taken.
type choosyFS struct{ *memfs.FS }

func (c choosyFS) refuses(path string) error {
	if strings.HasSuffix(path, ".") {
		return fs.ErrInvalid
	}
	return nil
}

func (c choosyFS) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	if err := c.refuses(path); err != nil {
		return nil, err
	}
	return c.FS.Lstat(ctx, path)
}

func (c choosyFS) Open(ctx context.Context, path string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	if err := c.refuses(path); err != nil {
		return nil, err
	}
	return c.FS.Open(ctx, path, flags, attrs)
}

func (c choosyFS) PosixRename(ctx context.Context, from, to string) error {
	if err := c.refuses(to); err != nil {
		return err
	}
	return c.FS.PosixRename(ctx, from, to)
}

// TestNamesThatAHostRefuses: a name that a host refuses says nothing about the others, which are
// not written in place because of it, and leaves nothing behind.
func TestNamesThatAHostRefuses(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // which cannot have such files
	}
	host, _ := deltaHostOf(t, choosyFS{memfs.New(0)}, nil)
	src := t.TempDir()
	fill(t, src, "a", "b")
	for _, size := range []int{1, 10 << 20} { // a small file, and one that is journaled
		name := filepath.Join(src, fmt.Sprint("odd", size, "."))
		if err := os.WriteFile(name, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	var o transfer.Options
	o.NoTargetDirectory, o.Events = true, func(e transfer.Event) {
		switch e.Kind {
		case transfer.Warning:
			said = append(said, e.Message)
		case transfer.Failed:
			if e.LeftBehind != "" || !strings.Contains(e.Message, "the host cannot have this name") {
				t.Errorf("%s; %q is left", e.Message, e.LeftBehind)
			}
		}
	}
	for range 2 {
		if s, err := uploadTree(t.Context(), host, src, "/dst", o); err == nil || s.Failed != 2 {
			t.Errorf("%+v, %v", s, err)
		}
		have := namesOn(t, host.Client, "/dst")
		if len(said) > 0 || !slices.Equal(have, []string{"dst", "a", "b"}) {
			t.Errorf("there are %q; %q", have, said)
		}
	}
}
