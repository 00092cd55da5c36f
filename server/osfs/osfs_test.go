package osfs_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// served makes a directory with a secret beside it, and serves it.
func served(t *testing.T) (f *osfs.FS, dir, outside string) {
	t.Helper()
	top := t.TempDir()
	dir, outside = filepath.Join(top, "served"), filepath.Join(top, "outside")
	for _, d := range []string{dir, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(outside, "f"), "secret")
	f, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, dir, outside
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(f *osfs.FS, name string, flags uint32) (server.File, error) {
	return f.Open(context.Background(), name, flags,
		wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o644})
}

// everything tries every operation on a path.
func everything(f *osfs.FS, name string) map[string]error {
	ctx := context.Background()
	mode := wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o600}
	errs := map[string]error{}
	_, errs["stat"] = f.Stat(ctx, name)
	file, err := open(f, name, wire.OpenRead)
	if errs["read"] = err; err == nil {
		file.Close()
	}
	file, err = open(f, name, wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate)
	if errs["write"] = err; err == nil {
		file.Close()
	}
	errs["chmod"] = f.Setstat(ctx, name, mode)
	errs["truncate"] = f.Setstat(ctx, name, wire.Attrs{Flags: wire.AttrSize})
	errs["times"] = f.Setstat(ctx, name, wire.Attrs{Flags: wire.AttrACModTime})
	for _, err := range f.List(ctx, filepath.ToSlash(filepath.Dir(name))) {
		errs["list"] = err
		break
	}
	return errs
}

func TestNothingLeadsOut(t *testing.T) {
	f, dir, outside := served(t)
	testenv.Symlink(t, "../outside", filepath.Join(dir, "relative"))
	testenv.Symlink(t, outside, filepath.Join(dir, "absolute"))
	testenv.Symlink(t, "../outside/f", filepath.Join(dir, "file"))
	testenv.Symlink(t, dir, filepath.Join(dir, "self")) // absolute, to a place inside
	write(t, filepath.Join(dir, "f"), "inside")
	for _, name := range []string{"/relative/f", "/absolute/f", "/file", "/self/f"} {
		for what, err := range everything(f, name) {
			if name == "/file" && what == "list" {
				continue // of the served directory
			}
			if err == nil {
				t.Errorf("%s %s went through", what, name)
			}
		}
	}
	got, err := os.ReadFile(filepath.Join(outside, "f"))
	if err != nil || string(got) != "secret" {
		t.Errorf("the file outside is %q, %v", got, err)
	}
	// Clients may see and remove links themselves.
	ctx := context.Background()
	if target, err := f.Readlink(ctx, "/relative"); err != nil || target != "../outside" {
		t.Errorf("Readlink: %q, %v", target, err)
	}
	if info, err := f.Lstat(ctx, "/absolute"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("Lstat: %v, %v", info, err)
	}
	for _, name := range []string{"/relative", "/absolute", "/file", "/self"} {
		if err := f.Rename(ctx, name, name+"2"); err != nil {
			t.Error(err)
		}
		if err := f.Remove(ctx, name+"2"); err != nil {
			t.Error(err)
		}
	}
}

// TestLinksSwappedWhileWalking replaces a directory by a link to the outside and back while clients
// go through it.
func TestLinksSwappedWhileWalking(t *testing.T) {
	f, dir, outside := served(t)
	write(t, filepath.Join(outside, "only outside"), "secret")
	before := map[string]fs.FileInfo{}
	for _, name := range []string{"f", "only outside"} {
		info, err := os.Stat(filepath.Join(outside, name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = info
	}
	real, parked, bait := filepath.Join(dir, "d"), filepath.Join(dir, "parked"), filepath.Join(dir,
		"bait")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(real, "f"), "inside")
	testenv.Symlink(t, "../outside", bait)
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(real, parked)
			os.Rename(bait, real)
			os.Rename(real, bait)
			os.Rename(parked, real)
		}
	})
	ctx := context.Background()
	seen := 0
	attrs := wire.Attrs{Flags: wire.AttrSize | wire.AttrPermissions | wire.AttrACModTime,
		Permissions: 0o600}
	for range 2000 {
		if file, err := open(f, "/d/f", wire.OpenRead); err == nil {
			text, err := io.ReadAll(io.NewSectionReader(file.(io.ReaderAt), 0, 100))
			file.Close()
			if err != nil || string(text) != "inside" {
				t.Fatalf("read %q, %v", text, err)
			}
			seen++
		}
		for info, err := range f.List(ctx, "/d") {
			if err == nil && info.Name() == "only outside" {
				t.Fatal("the directory outside was listed")
			}
		}
		for _, name := range []string{"/d/only outside", "/d/sub/../only outside"} {
			if _, err := f.Stat(ctx, name); err == nil {
				t.Fatal("a file outside was described")
			}
			if f.Setstat(ctx, name, attrs) == nil ||
				f.Lsetstat(ctx, name, wire.Attrs{Flags: wire.AttrPermissions}) == nil {
				t.Fatal("a file outside was changed")
			}
			if f.Link(ctx, name, "/stolen") == nil || f.PosixRename(ctx, name, "/stolen") == nil ||
				f.Remove(ctx, name) == nil {
				t.Fatal("a file outside was taken")
			}
		}
		if file, err := open(f, "/d/g", wire.OpenWrite|wire.OpenCreate); err == nil {
			file.Close()
		}
		f.Rename(ctx, "/d/g", "/d/h")
		f.Mkdir(ctx, "/d/sub", wire.Attrs{})
		f.Symlink(ctx, "f", "/d/l")
		f.Lsetstat(ctx, "/d/h", wire.Attrs{Flags: wire.AttrACModTime})
		for _, name := range []string{"/d/h", "/d/l"} {
			f.Remove(ctx, name)
		}
		f.Rmdir(ctx, "/d/sub")
	}
	close(stop)
	swapper.Wait()
	if seen == 0 || seen == 2000 {
		t.Errorf("the directory was there %d times", seen)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 2 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
	for name, want := range before {
		info, err := os.Stat(filepath.Join(outside, name))
		if err != nil || info.Size() != want.Size() || info.Mode() != want.Mode() ||
			!info.ModTime().Equal(want.ModTime()) {
			t.Errorf("%s outside has changed: %v, %v", name, info, err)
		}
	}
}

func TestAnswersOfErrors(t *testing.T) {
	f, dir, _ := served(t)
	write(t, filepath.Join(dir, "f"), "x")
	ctx := context.Background()
	if err := f.Rename(ctx, "/f", "/f"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("renaming to an existing name: %v", err)
	}
	if err := f.Remove(ctx, "/"); err == nil {
		t.Error("the served directory was removed")
	}
	if err := f.Rmdir(ctx, "/"); err == nil {
		t.Error("the served directory was removed")
	}
	if err := f.PosixRename(ctx, "/", "/g"); err == nil {
		t.Error("the served directory was renamed")
	}
}

func TestHostIsTheWholeSystem(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "text")
	testenv.Symlink(t, filepath.Join(dir, "f"), filepath.Join(dir, "l"))
	f := osfs.Host()
	name := "/" + strings.TrimPrefix(filepath.ToSlash(filepath.Join(dir, "l")), "/")
	file, err := open(f, name, wire.OpenRead)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file.(io.ReaderAt), 0, 100))
	if err != nil || string(text) != "text" {
		t.Errorf("read %q, %v", text, err)
	}
	resolved, err := f.RealPath(context.Background(), name)
	want, _ := filepath.EvalSymlinks(filepath.Join(dir, "l"))
	want = "/" + strings.TrimPrefix(filepath.ToSlash(want), "/")
	if err != nil || resolved != want {
		t.Errorf("RealPath: %q, %v, want %q", resolved, err, want)
	}
}

func TestOwnerNames(t *testing.T) {
	f := osfs.Host()
	users, groups, err := f.OwnerNames(context.Background(), []uint32{0, 4_000_000_001},
		[]uint32{4_000_000_002})
	if err != nil || len(users) != 2 || len(groups) != 1 || users[1] != "" || groups[0] != "" {
		t.Errorf("%q %q %v", users, groups, err)
	}
	if os.Getuid() >= 0 && users[0] != "root" {
		t.Errorf("user 0 is %q", users[0])
	}
	confined, _, _ := served(t)
	users, groups, err = confined.OwnerNames(context.Background(), []uint32{0, 1}, []uint32{0})
	if err != nil || !slices.Equal(users, []string{"", ""}) || !slices.Equal(groups, []string{""}) {
		t.Errorf("who sees one directory is told %q %q %v", users, groups, err)
	}
}

// TestListingWhileNamesVanish: names that are removed during a listing are left out of it.
func TestListingWhileNamesVanish(t *testing.T) {
	f, dir, _ := served(t)
	file := filepath.Join(dir, "f")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				os.WriteFile(file, nil, 0o600)
				os.Remove(file)
			}
		}
	}()
	for range 2000 {
		for info, err := range f.List(t.Context(), "/") {
			if err != nil {
				t.Error(info, err)
			}
		}
	}
	close(stop)
	<-stopped
}
