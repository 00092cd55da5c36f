//go:build linux || darwin || freebsd

package osfs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

const (
	create   = wire.OpenWrite | wire.OpenCreate
	truncate = create | wire.OpenTruncate
)

// atomics is a directory in which files appear when they are closed.
type atomics struct {
	*testing.T
	fs  *osfs.FS
	dir string
}

func newAtomics(t *testing.T) *atomics {
	a := &atomics{T: t, dir: t.TempDir()}
	a.fs = a.serve()
	return a
}

// serve serves the directory once more, as a server does that was started again or runs beside.
func (a *atomics) serve() *osfs.FS {
	a.Helper()
	f, err := osfs.NewAtomic(a.dir)
	a.must(err)
	a.Cleanup(func() { f.Close() })
	return f
}

type writer interface {
	io.ReaderAt
	io.WriterAt
	server.FileSetstater
	io.Closer
}

func (a *atomics) abandon(f writer) {
	a.Helper()
	if abandoner, ok := f.(server.FileAbandoner); ok {
		a.must(abandoner.Abandon())
	} else { // of a file that is changed where it is
		a.must(f.Close())
	}
}

func (a *atomics) open(name string, flags uint32) writer {
	a.Helper()
	f, err := open(a.fs, name, flags)
	if err != nil {
		a.Fatalf("opening %s: %v", name, err)
	}
	return f.(writer)
}

func (a *atomics) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func (a *atomics) is(err, want error) {
	a.Helper()
	if !errors.Is(err, want) {
		a.Errorf("got %v, want %v", err, want)
	}
}

func (a *atomics) at(f io.WriterAt, offset int64, text string) {
	a.Helper()
	if n, err := f.WriteAt([]byte(text), offset); n != len(text) || err != nil {
		a.Fatalf("wrote %d of %d bytes: %v", n, len(text), err)
	}
}

// local returns what is in the directory for other programs: names and contents. What is hidden is
// called "?".
func (a *atomics) local() string {
	a.Helper()
	var all []string
	a.must(filepath.WalkDir(a.dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == a.dir {
			return err
		}
		shown, _ := filepath.Rel(a.dir, name)
		if strings.HasPrefix(entry.Name(), ".upload-") {
			shown = filepath.Join(filepath.Dir(shown), "?")
		}
		if entry.Type().IsRegular() {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			shown += "=" + string(text)
		}
		all = append(all, shown)
		return nil
	}))
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (a *atomics) there(want string) {
	a.Helper()
	if got := a.local(); got != want {
		a.Errorf("there is %q, want %q", got, want)
	}
}

// listed returns the names that clients see at the top.
func (a *atomics) listed() (names []string) {
	a.Helper()
	for info, err := range a.fs.List(context.Background(), "/") {
		a.must(err)
		if info.Name() != "." && info.Name() != ".." {
			names = append(names, info.Name())
		}
	}
	return names
}

// TestAtomicUploads: what is at a name at each step of an upload, for programs on the server.
func TestAtomicUploads(t *testing.T) {
	ctx := context.Background()
	for name, run := range map[string]func(a *atomics){
		"new": func(a *atomics) {
			f := a.open("/f", truncate)
			a.at(f, 0, "text")
			a.there("?=text")
			if names := a.listed(); len(names) > 0 {
				a.Errorf("%q is listed", names)
			}
			a.must(f.Close())
			a.there("f=text")
		},
		"in place of another": func(a *atomics) {
			write(a.T, filepath.Join(a.dir, "f"), "old")
			a.must(os.Chmod(filepath.Join(a.dir, "f"), 0o640))
			f := a.open("/f", truncate)
			a.at(f, 0, "text")
			a.there("?=text f=old")
			a.must(f.Close())
			a.there("f=text")
			if info, err := os.Stat(filepath.Join(a.dir, "f")); err != nil || info.Mode() != 0o640 {
				a.Errorf("its mode is %v, %v", info.Mode(), err)
			}
		},
		"behind a link": func(a *atomics) {
			a.must(os.Mkdir(filepath.Join(a.dir, "d"), 0o755))
			write(a.T, filepath.Join(a.dir, "d", "f"), "old")
			testenv.Symlink(a.T, "d/f", filepath.Join(a.dir, "l"))
			f := a.open("/l", truncate)
			a.at(f, 0, "text")
			a.there("d d/?=text d/f=old l")
			a.must(f.Close())
			a.there("d d/f=text l")
		},
		"abandoned and gone on with": func(a *atomics) {
			f := a.open("/f", truncate)
			a.at(f, 0, "half")
			a.abandon(f)
			a.there("?=half")
			for range 2 { // also after the server was started again
				info, err := a.fs.Stat(ctx, "/f")
				if err != nil || info.Size() != 4 || info.Name() != "f" {
					a.Errorf("STAT: %v, %v", info, err)
				}
				_, err = open(a.fs, "/f", wire.OpenRead)
				if err == nil {
					a.Error("half a file was opened to be read")
				}
				a.fs = a.serve()
			}
			f = a.open("/f", create)
			a.at(f, 4, " and half")
			a.must(f.Close())
			a.there("f=half and half")
		},
		"abandoned and appended to": func(a *atomics) {
			a.at(a.abandoned("/f", "half"), 0, "")
			f := a.open("/f", wire.OpenWrite|wire.OpenCreate|wire.OpenAppend)
			a.at(f, 0, " and half")
			a.must(f.Close())
			a.there("f=half and half")
		},
		"abandoned and begun again": func(a *atomics) {
			a.abandoned("/f", "half")
			f := a.open("/f", truncate)
			a.at(f, 0, "text")
			a.must(f.Close())
			a.there("f=text")
		},
		"abandoned and truncated": func(a *atomics) { // as the kernel does for sshfs
			a.abandoned("/f", "half")
			f := a.open("/f", wire.OpenWrite|wire.OpenTruncate)
			a.there("?=")
			a.at(f, 0, "t")
			a.must(f.Close())
			a.there("f=t")
		},
		"truncated while another session uploads it": func(a *atomics) {
			f := a.open("/f", truncate)
			a.at(f, 0, "text")
			if _, err := open(a.fs, "/f", wire.OpenWrite|wire.OpenTruncate); err == nil ||
				errors.Is(err, fs.ErrNotExist) {
				a.Errorf("it is opened, or said not to be there: %v", err)
			}
			a.must(f.Close())
			a.there("f=text")
		},
		"abandoned and taken for new": func(a *atomics) {
			a.abandoned("/f", "half")
			f := a.open("/f", truncate|wire.OpenExclusive)
			a.at(f, 0, "text")
			a.must(f.Close())
			a.there("f=text")
		},
		"abandoned and removed": func(a *atomics) {
			a.abandoned("/f", "half")
			a.must(a.fs.Remove(ctx, "/f"))
			a.is(a.fs.Remove(ctx, "/f"), fs.ErrNotExist)
			a.there("")
		},
		"abandoned in place of another": func(a *atomics) {
			write(a.T, filepath.Join(a.dir, "f"), "old")
			a.abandoned("/f", "half")
			a.there("f=old")
		},
		"abandoned, and arrived by another way": func(a *atomics) {
			a.abandoned("/f", "half")
			f := a.open("/f.filepart", truncate)
			a.at(f, 0, "text")
			a.must(f.Close())
			a.must(a.fs.Rename(ctx, "/f.filepart", "/f"))
			a.there("f=text")
		},
		"as WinSCP does": func(a *atomics) {
			write(a.T, filepath.Join(a.dir, "f"), "old")
			f := a.open("/f.filepart", truncate)
			a.at(f, 0, "half")
			a.abandon(f)
			info, err := a.fs.Lstat(ctx, "/f.filepart")
			if err != nil || info.Size() != 4 {
				a.Fatalf("LSTAT: %v, %v", info, err)
			}
			f = a.open("/f.filepart", wire.OpenWrite)
			a.at(f, info.Size(), " and half")
			a.must(f.Setstat(wire.Attrs{Flags: wire.AttrACModTime, MTime: 1e9}))
			a.must(f.Close())
			a.there("f.filepart=half and half f=old")
			a.must(a.fs.Remove(ctx, "/f"))
			a.must(a.fs.Rename(ctx, "/f.filepart", "/f"))
			a.there("f=half and half")
		},
		"renamed before it is closed": func(a *atomics) {
			f := a.open("/f", truncate)
			if err := a.fs.PosixRename(ctx, "/f", "/g"); err == nil {
				a.Error("it was renamed")
			}
			if err := a.fs.Link(ctx, "/f", "/g"); err == nil {
				a.Error("it got another name")
			}
			a.must(f.Close())
			a.there("f=")
		},
		"removed before it is closed": func(a *atomics) {
			f := a.open("/f", truncate)
			a.must(a.fs.Remove(ctx, "/f"))
			a.at(f, 0, "text")
			a.must(f.Close()) // as in a directory
			a.there("")
		},
		"its directory is renamed": func(a *atomics) {
			a.must(os.Mkdir(filepath.Join(a.dir, "d"), 0o755))
			f := a.open("/d/f", truncate)
			a.must(a.fs.Rename(ctx, "/d", "/e"))
			a.must(f.Close())
			a.there("e e/f=")
		},
		"something else has come": func(a *atomics) {
			f := a.open("/f", truncate|wire.OpenExclusive)
			write(a.T, filepath.Join(a.dir, "f"), "other")
			a.is(f.Close(), fs.ErrExist)
			a.there("?= f=other")
		},
		"exclusive, while another is under way": func(a *atomics) {
			f := a.open("/f", truncate|wire.OpenExclusive)
			_, err := open(a.fs, "/f", truncate|wire.OpenExclusive)
			a.is(err, fs.ErrExist)
			a.must(f.Close())
		},
		"begun again while the old connection is not known to be lost": func(a *atomics) {
			lost, f := a.open("/f", truncate), a.open("/f", truncate)
			a.at(lost, 0, "half")
			a.at(f, 0, "text")
			a.must(f.Close())
			a.there("f=text")
			if err := lost.Close(); err == nil {
				a.Error("an upload was closed well whose file was replaced")
			}
			a.there("f=text")
		},
		"begun again after it was made read-only": func(a *atomics) {
			lost := a.open("/f", truncate)
			a.at(lost, 0, "half")
			a.must(lost.Setstat(wire.Attrs{Flags: wire.AttrPermissions}))
			f := a.open("/f", truncate)
			a.at(f, 0, "text")
			if err := lost.Close(); err == nil {
				a.Error("an upload was closed well that was begun again")
			}
			a.there("?=text")
			a.must(f.Close())
			a.there("f=text")
		},
		"taken by a server without locks": func(a *atomics) {
			f := a.open("/f", truncate)
			hidden, err := filepath.Glob(filepath.Join(a.dir, ".upload-*"))
			a.must(err)
			a.must(os.Remove(hidden[0]))
			write(a.T, hidden[0], "of another")
			if err := f.Close(); err == nil {
				a.Error("another server's upload was completed")
			}
			a.there("?=of another")
		},
		"gone on with while the old connection is not known to be lost": func(a *atomics) {
			lost := a.open("/f", truncate)
			a.at(lost, 0, "half")
			f := a.open("/f", create)
			a.at(f, 4, " and half")
			a.must(f.Close())
			a.there("f=half and half")
			a.abandon(lost)
			a.there("f=half and half")
		},
		"in parts": func(a *atomics) {
			first, second := a.open("/f", truncate), a.open("/f", wire.OpenWrite)
			a.at(second, 2, "xt")
			a.must(first.Close())
			a.there("?=\x00\x00xt")
			third := a.open("/f", wire.OpenWrite)
			a.at(third, 0, "te")
			a.must(third.Close())
			a.must(second.Close())
			a.there("f=text")
		},
		"in parts, one of which is lost": func(a *atomics) {
			first, second := a.open("/f", truncate), a.open("/f", wire.OpenWrite)
			a.at(second, 2, "xt")
			a.must(first.Close())
			a.abandon(second)
			a.there("?=\x00\x00xt")
			again := a.open("/f", wire.OpenWrite)
			a.at(again, 0, "te")
			a.must(again.Close())
			a.there("f=text")
		},
		"in parts, one of which is lost, and renamed": func(a *atomics) {
			first, lost := a.open("/f.part", truncate), a.open("/f.part", wire.OpenWrite)
			a.at(lost, 2, "x")
			if err := a.fs.Rename(ctx, "/f.part", "/f"); err == nil {
				a.Error("what nobody has closed was renamed")
			}
			a.at(first, 0, "text")
			a.must(first.Close())
			a.must(a.fs.Rename(ctx, "/f.part", "/f"))
			a.there("f=text")
			a.abandon(lost)
			a.there("f=text")
		},
		"in parts, one of which is lost, in place of another, and renamed": func(a *atomics) {
			write(a.T, filepath.Join(a.dir, "f.part"), "old")
			first, lost := a.open("/f.part", truncate), a.open("/f.part", wire.OpenWrite)
			a.at(first, 0, "text")
			a.must(first.Close())
			a.must(a.fs.PosixRename(ctx, "/f.part", "/f"))
			a.there("f=text")
			a.abandon(lost)
			a.there("f=text")
		},
		"in parts, in place of another": func(a *atomics) {
			write(a.T, filepath.Join(a.dir, "f"), "old")
			first, second := a.open("/f", truncate), a.open("/f", wire.OpenWrite)
			a.at(second, 2, "xt")
			a.at(first, 0, "te")
			a.must(second.Close())
			a.must(first.Close())
			a.there("f=text")
		},
		"changed": func(a *atomics) {
			write(a.T, filepath.Join(a.dir, "f"), "old text")
			f := a.open("/f", create)
			a.at(f, 0, "new")
			a.there("f=new text")
			a.must(f.Close())
			f = a.open("/f", wire.OpenWrite|wire.OpenAppend)
			a.at(f, 0, "s")
			a.there("f=new texts")
			a.must(f.Close())
		},
		"of two names": func(a *atomics) {
			write(a.T, filepath.Join(a.dir, "f"), "old")
			a.must(os.Link(filepath.Join(a.dir, "f"), filepath.Join(a.dir, "g")))
			f := a.open("/f", truncate)
			a.at(f, 0, "text")
			a.must(f.Close())
			a.there("f=text g=text")
		},
		"read by who had opened the old one": func(a *atomics) {
			write(a.T, filepath.Join(a.dir, "f"), "old")
			reader, err := open(a.fs, "/f", wire.OpenRead)
			a.must(err)
			defer reader.Close()
			f := a.open("/f", truncate)
			a.at(f, 0, "text")
			a.must(f.Close())
			text := make([]byte, 4)
			if n, _ := reader.(io.ReaderAt).ReadAt(text, 0); string(text[:n]) != "old" {
				a.Errorf("read %q", text[:n])
			}
		},
		"attributes": func(a *atomics) {
			file, err := a.fs.Open(ctx, "/f", truncate, wire.Attrs{
				Flags: wire.AttrPermissions | wire.AttrACModTime, Permissions: 0o604, MTime: 1e9})
			a.must(err)
			f := file.(writer)
			a.must(f.Setstat(wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o600}))
			a.must(f.(server.FileSyncer).Sync())
			a.must(a.fs.Setstat(ctx, "/f", wire.Attrs{Flags: wire.AttrACModTime, MTime: 2e9}))
			a.must(f.Close())
			info, err := os.Stat(filepath.Join(a.dir, "f"))
			a.must(err)
			if info.Mode() != 0o600 || info.ModTime().Unix() != 2e9 {
				a.Errorf("it has %v, %v", info.Mode(), info.ModTime())
			}
		},
	} {
		t.Run(name, func(t *testing.T) { run(newAtomics(t)) })
	}
}

// abandoned leaves half a file.
func (a *atomics) abandoned(name, text string) io.WriterAt {
	a.Helper()
	f := a.open(name, truncate)
	a.at(f, 0, text)
	a.abandon(f)
	return nothing{}
}

type nothing struct{}

func (nothing) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// TestQuotaOfRenamedUploads: an upload that a rename publishes takes the place of a file, which no
// longer counts.
func TestQuotaOfRenamedUploads(t *testing.T) {
	a, ctx := newAtomics(t), context.Background()
	write(t, filepath.Join(a.dir, "f.part"), "old")
	write(t, filepath.Join(a.dir, "f"), "older")
	a.must(os.Mkdir(filepath.Join(a.dir, "d"), 0o755))
	quota := server.NewQuota(100, 10)
	view, err := server.NewView(a.fs, &server.Policy{Quota: quota})
	a.must(err)
	open := func(flags uint32) *server.ViewFile {
		f, err := view.Open(ctx, "/f.part", flags, wire.Attrs{})
		a.must(err)
		return f
	}
	used := func(wantBytes, wantFiles int64) {
		t.Helper()
		for _, when := range []string{"before", "after"} {
			if bytes, files := quota.Usage(); bytes != wantBytes || files != wantFiles {
				t.Errorf("%s a count: %d bytes in %d files, want %d in %d", when, bytes, files,
					wantBytes, wantFiles)
			}
			a.must(quota.Recount(ctx, a.fs, "/"))
		}
	}
	first, lost := open(truncate), open(wire.OpenWrite)
	a.at(first, 0, "text")
	a.must(first.Close())
	if err := view.PosixRename(ctx, "/f.part", "/d"); err == nil {
		t.Error("a directory was replaced")
	}
	a.there("d f.part=text f=older")
	used(9, 3)
	second, alsoLost := open(truncate), open(wire.OpenWrite)
	a.at(second, 0, "texts")
	a.must(second.Close())
	a.must(view.PosixRename(ctx, "/f.part", "/f"))
	a.there("d f=texts")
	used(9, 2) // the other one that has lost its name is still open
	a.must(lost.Abandon(io.ErrUnexpectedEOF))
	a.must(alsoLost.Abandon(io.ErrUnexpectedEOF))
	used(5, 2)
	// Both names are one file's until the upload is published.
	write(t, filepath.Join(a.dir, "f.part"), "old")
	a.must(quota.Recount(ctx, a.fs, "/"))
	third, lostToo := open(truncate), open(wire.OpenWrite)
	a.at(third, 0, "new")
	a.must(third.Close())
	a.must(view.Remove(ctx, "/f"))
	a.must(view.Link(ctx, "/f.part", "/f"))
	a.must(view.PosixRename(ctx, "/f.part", "/f"))
	a.there("d f=new")
	a.must(lostToo.Abandon(io.ErrUnexpectedEOF))
	used(3, 2)
}

// TestQuotaOfLeftoversBesideFiles: the leftover of an upload that another file's name hides counts
// until that file is replaced, removed or begun again.
func TestQuotaOfLeftoversBesideFiles(t *testing.T) {
	for name, one := range map[string]struct {
		change func(a *atomics, view *server.View) error
		left   string
	}{
		"rename": {func(a *atomics, view *server.View) error {
			return view.PosixRename(a.Context(), "/new", "/f")
		}, "f=news"},
		"rename of itself": {func(a *atomics, view *server.View) error {
			return view.PosixRename(a.Context(), "/f", "/f")
		}, "f=file new=news"},
		"remove": {func(a *atomics, view *server.View) error {
			return view.Remove(a.Context(), "/f")
		}, "new=news"},
		"truncation": {func(a *atomics, view *server.View) error {
			f, err := view.Open(a.Context(), "/f", truncate, wire.Attrs{})
			if err == nil {
				a.at(f, 0, "again")
				err = f.Close()
			}
			return err
		}, "f=again new=news"},
		"truncation, given up": {func(a *atomics, view *server.View) error {
			f, err := view.Open(a.Context(), "/f", truncate, wire.Attrs{})
			if err == nil {
				a.at(f, 0, "again")
				err = f.Abandon(io.ErrUnexpectedEOF)
			}
			return err
		}, "f=file new=news"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAtomics(t)
			a.abandoned("/f", "leftover")
			write(t, filepath.Join(a.dir, "f"), "file")
			write(t, filepath.Join(a.dir, "new"), "news")
			a.there("?=leftover f=file new=news")
			quota := server.NewQuota(0, 0)
			view, err := server.NewView(a.fs, &server.Policy{Quota: quota})
			a.must(err)
			a.must(quota.Recount(t.Context(), a.fs, "/"))
			a.must(one.change(a, view))
			a.there(one.left)
			bytes, files := quota.Usage()
			a.must(quota.Recount(t.Context(), a.fs, "/"))
			if b, f := quota.Usage(); bytes != b || files != f {
				t.Errorf("%d bytes in %d files, a count finds %d in %d", bytes, files, b, f)
			}
		})
	}
}

// TestHiddenNames: no request reaches what is hidden, by any path.
func TestHiddenNames(t *testing.T) {
	a, ctx := newAtomics(t), context.Background()
	a.abandoned("/f", "half")
	entries, err := os.ReadDir(a.dir)
	a.must(err)
	hidden := entries[0].Name()
	testenv.Symlink(t, hidden, filepath.Join(a.dir, "link"))
	write(t, filepath.Join(a.dir, "other"), "other")
	before := a.local()
	for _, name := range []string{hidden, strings.ToUpper(hidden), "\u200c" + hidden, "./" + hidden,
		"link", hidden + "/", hidden + "/x", hidden + "/.."} {
		for op, err := range everything(a.fs, "/"+name) {
			if err == nil && op != "list" {
				t.Errorf("%s of %q succeeded", op, name)
			}
		}
		for _, change := range []func() error{
			func() error { return a.fs.PosixRename(ctx, "/other", "/"+name) },
			func() error { return a.fs.Rename(ctx, "/"+name, "/new") },
			func() error { return a.fs.Link(ctx, "/other", "/"+name) },
			func() error { return a.fs.Symlink(ctx, "other", "/"+name) },
			func() error { return a.fs.Mkdir(ctx, "/"+name, wire.Attrs{}) },
		} {
			if name == "link" {
				break // which is a name like any other
			}
			if err := change(); err == nil {
				t.Errorf("%q could be changed", name)
			}
		}
		beneath := server.WithBeneath(ctx, "/")
		if _, err := a.fs.Stat(beneath, "/"+hidden); err == nil {
			t.Error("it is seen beneath a directory")
		}
	}
	if got := a.local(); got != before && got != strings.ReplaceAll(before, " link", "") {
		t.Errorf("there is %q, want %q", got, before)
	}
}

// TestDirectoryOfAbandonedUploads: what looks empty can be removed, unless something is being
// uploaded to it.
func TestDirectoryOfAbandonedUploads(t *testing.T) {
	a, ctx := newAtomics(t), context.Background()
	a.must(a.fs.Mkdir(ctx, "/d", wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o755}))
	a.abandoned("/d/f", "half")
	f := a.open("/d/g", truncate)
	a.is(a.fs.Rmdir(ctx, "/d"), syscall.ENOTEMPTY)
	a.must(f.Close())
	a.is(a.fs.Rmdir(ctx, "/d"), syscall.ENOTEMPTY)
	a.must(a.fs.Remove(ctx, "/d/g"))
	a.must(a.fs.Rmdir(ctx, "/d"))
	a.there("")
}

// TestDirectoryRenamedOverUpload: a directory that gets the name of an unfinished upload takes its
// place, also if the name ends in a slash.
func TestDirectoryRenamedOverUpload(t *testing.T) {
	for _, name := range []string{"/f", "/f/"} {
		a, ctx := newAtomics(t), t.Context()
		a.abandoned("/f", "half")
		a.must(os.Mkdir(filepath.Join(a.dir, "d"), 0o755))
		a.must(a.fs.PosixRename(ctx, "/d", name))
		a.there("f")
	}
}

// TestTwoServersOfUploads: what one server receives no other takes for abandoned.
func TestTwoServersOfUploads(t *testing.T) {
	a := newAtomics(t)
	f := a.open("/f", truncate)
	a.at(f, 0, "text")
	other := a.serve()
	for _, flags := range []uint32{truncate, create, wire.OpenWrite,
		truncate | wire.OpenExclusive} {
		if _, err := open(other, "/f", flags); err == nil {
			t.Errorf("another server has opened it with %#x", flags)
		}
	}
	if err := other.Remove(context.Background(), "/f"); err == nil {
		t.Error("another server has removed it")
	}
	a.must(other.Sweep(context.Background(), -time.Hour))
	a.must(f.Close())
	a.there("f=text")
}

// TestUpload: what is not complete is told from files by its own request.
func TestUpload(t *testing.T) {
	a := newAtomics(t)
	upload := func(name string) int64 {
		info, err := a.fs.Upload(t.Context(), name)
		if errors.Is(err, fs.ErrNotExist) {
			return -1
		}
		a.must(err)
		return info.Size()
	}
	size := func(name string, want int64) {
		t.Helper()
		if got := upload(name); got != want {
			t.Errorf("the upload of %s has %d bytes, want %d", name, got, want)
		}
	}
	size("/f", -1)
	size("/missing/f", -1)
	f := a.open("/f", wire.OpenWrite|wire.OpenCreate|wire.OpenExclusive)
	a.at(f, 0, "half")
	size("/f", 4)
	a.abandon(f)
	size("/f", 4)
	f = a.open("/f", wire.OpenWrite)
	a.at(f, 4, " of it")
	size("/f", 10)
	a.must(f.Close())
	size("/f", -1)
	f = a.open("/f", wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate)
	a.at(f, 0, "another")
	size("/f", -1)
	a.abandon(f)
	size("/f", -1)
	a.there("f=half of it")
	if _, err := a.fs.Upload(t.Context(), "/"); err == nil {
		t.Error("the top is an upload")
	}
}

// TestSweep: old uploads are removed, new ones and those under way are not.
func TestSweep(t *testing.T) {
	a, ctx := newAtomics(t), context.Background()
	a.must(os.MkdirAll(filepath.Join(a.dir, "d", "e"), 0o755))
	a.abandoned("/d/e/f", "half")
	a.must(a.fs.Setstat(ctx, "/d/e/f", wire.Attrs{Flags: wire.AttrACModTime, MTime: 1}))
	f := a.open("/d/g", truncate)
	a.must(a.fs.Sweep(ctx, time.Hour))
	a.there("d d/?= d/e d/e/?=half")
	a.must(a.fs.Sweep(ctx, -time.Hour))
	a.there("d d/?= d/e")
	a.must(f.Close())
	a.there("d d/e d/g=")
}

// ledger is an account that several servers share, of which nothing is cut off.
type ledger struct {
	mu  sync.Mutex
	now server.Usage
}

func (l *ledger) Reserve(_ context.Context, bytes, files int64) error {
	l.Settle(bytes, files)
	return nil
}

func (l *ledger) Settle(bytes, files int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Bytes, l.now.Files = l.now.Bytes+bytes, l.now.Files+files
}

func (l *ledger) Usage() server.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// TestSweepFreesQuota: what is swept counts no longer, once, whichever of several servers has swept
// it; what is left goes on counting.
func TestSweepFreesQuota(t *testing.T) {
	a, ctx, account := newAtomics(t), t.Context(), &ledger{}
	var servers [2]*osfs.FS
	var quotas [2]*server.Quota
	var views [2]*server.View
	for i := range servers {
		servers[i], quotas[i] = a.serve(), server.NewQuotaOf(account)
		var err error
		views[i], err = server.NewView(servers[i], &server.Policy{Quota: quotas[i]})
		a.must(err)
	}
	begin := func(i int, name, text string) *server.ViewFile {
		f, err := views[i].Open(ctx, name, truncate, wire.Attrs{})
		a.must(err)
		a.at(f, 0, text)
		return f
	}
	a.must(views[0].Mkdir(ctx, "/d", wire.Attrs{}))
	for i := range 20 {
		name := fmt.Sprintf("/d/%d", i)
		a.must(begin(i%2, name, strings.Repeat("x", i)).Abandon(io.ErrUnexpectedEOF))
	}
	a.must(begin(0, "/whole", "text").Close())
	open := begin(1, "/open", "tex")
	has := func(when string, bytes, files int64) {
		t.Helper()
		if now := account.Usage(); now.Bytes != bytes || now.Files != files {
			t.Errorf("%s: %d bytes in %d files count, want %d in %d", when, now.Bytes, now.Files,
				bytes, files)
		}
	}
	has("at first", 190+4+3, 1+20+2)
	a.must(servers[0].Sweep(ctx, time.Hour, quotas[0]))
	has("when nothing is old", 190+4+3, 1+20+2)
	var sweeps sync.WaitGroup
	for i := range servers {
		sweeps.Go(func() {
			if err := servers[i].Sweep(ctx, -time.Hour, quotas[i]); err != nil {
				t.Error(err)
			}
		})
	}
	sweeps.Wait()
	has("after two sweeps", 4+3, 1+2)
	a.must(open.Close())
	a.there("d open=tex whole=text")
	has("in the end", 4+3, 1+2)
}

// uncounted is an account without a count.
type uncounted struct {
	ledger
	err error
}

func (u *uncounted) Counted(context.Context) (bool, error) { return false, u.err }

func (u *uncounted) Await(_, _ int64) {}

func (u *uncounted) BeginCount(context.Context) (func(bytes, files int64) error, error) {
	return nil, errors.ErrUnsupported
}

// TestSweepBeforeACount: what is swept before a directory is counted is not subtracted. If the
// account does not say whether it is counted, nothing is swept.
func TestSweepBeforeACount(t *testing.T) {
	a, account := newAtomics(t), &uncounted{err: errors.New("down")}
	a.abandoned("/f", "half")
	quota := server.NewQuotaOf(account)
	if err := a.fs.Sweep(t.Context(), -time.Hour, quota); err != account.err {
		t.Errorf("the account does not answer, and the sweep returns %v", err)
	}
	a.there("?=half")
	account.err = nil
	a.must(a.fs.Sweep(t.Context(), -time.Hour, quota))
	a.there("")
	if now := account.Usage(); now != (server.Usage{}) {
		t.Errorf("without a count, %+v counts", now)
	}
}

// sweptMeanwhile is a backend that a sweep comes to as soon as it is listed.
type sweptMeanwhile struct {
	*osfs.FS
	sweep func()
}

func (s *sweptMeanwhile) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	s.sweep()
	return s.FS.List(ctx, name)
}

// TestSweepWaitsForACount: a count either finds a leftover or not.
func TestSweepWaitsForACount(t *testing.T) {
	a, quota := newAtomics(t), server.NewQuota(0, 0)
	a.abandoned("/f", "half")
	write(t, filepath.Join(a.dir, "g"), "whole")
	a.must(quota.Recount(t.Context(), a.fs, "/"))
	a.must(quota.Recount(t.Context(), &sweptMeanwhile{a.fs, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := a.fs.Sweep(ctx, -time.Hour, quota); err == nil {
			t.Error("a sweep does not wait for a count")
		}
	}}, "/"))
	for _, want := range []server.Usage{{Bytes: 4 + 5, Files: 2}, {Bytes: 5, Files: 1}} {
		if bytes, files := quota.Usage(); bytes != want.Bytes || files != want.Files {
			t.Errorf("%d bytes in %d files count, want %d in %d", bytes, files, want.Bytes,
				want.Files)
		}
		a.must(a.fs.Sweep(t.Context(), -time.Hour, quota))
	}
}

// TestSweepGoesOn: what cannot be removed keeps no leftover elsewhere.
func TestSweepGoesOn(t *testing.T) {
	a := newAtomics(t)
	for _, dir := range []string{"d", "e"} {
		local := filepath.Join(a.dir, dir, ".upload-"+strings.Repeat("0", 32))
		a.must(os.MkdirAll(local, 0o755))
		a.abandoned("/"+dir+"/f", "half")
	}
	err := a.fs.Sweep(context.Background(), -time.Hour)
	if broken, ok := errors.AsType[*fs.PathError](err); !ok || !errors.Is(err, syscall.EISDIR) ||
		!strings.Contains(broken.Path, "/.upload-0000") {
		t.Errorf("the sweep returned %v", err)
	}
	a.there("d d/? e e/?")
}

// TestUploadsKeepNothingOpen: whichever way uploads end.
func TestUploadsKeepNothingOpen(t *testing.T) {
	a := newAtomics(t)
	open := func() int {
		entries, err := os.ReadDir("/dev/fd")
		a.must(err)
		return len(entries)
	}
	before := open()
	for i := range 20 {
		name := fmt.Sprintf("/%d", i%3)
		f, g := a.open(name, truncate), a.open(name, []uint32{create, truncate}[i%2])
		if i%4 < 2 {
			f.Close()
			a.abandon(g)
		} else {
			g.Close()
			a.abandon(f)
		}
	}
	if after := open(); after != before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

// TestManyUploadsAtOnce: clients of two servers upload, give up, remove and rename the same few
// files at once. Whoever looks finds whole files, or none.
func TestManyUploadsAtOnce(t *testing.T) {
	a, ctx := newAtomics(t), context.Background()
	servers := []*osfs.FS{a.fs, a.serve()}
	const pieces, piece = 16, "0123456789abcdef"
	names := []string{"/f", "/g", "/h"}
	var group sync.WaitGroup
	var uploaded, seen atomic.Int64
	for i := range 8 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 6))
			for range 300 {
				f, name := servers[random.IntN(2)], names[random.IntN(3)]
				switch random.IntN(8) {
				case 0:
					f.Remove(ctx, name)
				case 1:
					f.PosixRename(ctx, name, names[random.IntN(3)])
				case 2:
					f.Stat(ctx, name)
				default:
					flags := []uint32{truncate, truncate | wire.OpenExclusive}[random.IntN(2)]
					file, err := open(f, name, flags)
					if err != nil {
						continue
					}
					for j := range pieces {
						file.(io.WriterAt).WriteAt([]byte(piece), int64(j*len(piece)))
					}
					if random.IntN(3) == 0 {
						file.(server.FileAbandoner).Abandon()
					} else if file.Close() == nil {
						uploaded.Add(1)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	want := strings.Repeat(piece, pieces)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(a.dir, name))
			if err == nil && string(text) != want {
				t.Errorf("%s has %d bytes, want all %d", name, len(text), len(want))
				running = false
			} else if err == nil {
				seen.Add(1)
			}
		}
	}
	<-done
	if uploaded.Load() == 0 || seen.Load() == 0 {
		t.Errorf("%d files were uploaded, and %d seen", uploaded.Load(), seen.Load())
	}
	for _, f := range servers {
		a.must(f.Sweep(ctx, -time.Hour))
	}
	if got := a.local(); strings.Contains(got, "?") {
		t.Errorf("there is %q", got)
	}
}
