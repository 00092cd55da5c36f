package osfs_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// TestPipeDoesNotHang: opening a named pipe would wait for its other end by default.
func TestPipeDoesNotHang(t *testing.T) {
	f, dir, _ := served(t)
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if file, err := open(f, "/pipe", wire.OpenRead); err == nil {
		if _, err := file.(io.ReaderAt).ReadAt(make([]byte, 10), 0); err == nil {
			t.Error("read from a pipe that nobody writes to")
		}
		file.Close()
	}
	if _, err := open(f, "/pipe", wire.OpenWrite); err == nil {
		t.Error("opened a pipe that nobody reads")
	}
	if err := f.Setstat(context.Background(), "/pipe",
		wire.Attrs{Flags: wire.AttrSize}); err == nil {
		t.Error("truncated a pipe")
	}
}

// TestNothingIsMadeInPart: a file or directory that cannot be made as asked is not left behind.
func TestNothingIsMadeInPart(t *testing.T) {
	for _, serve := range []func(string) (*osfs.FS, error){osfs.New, osfs.NewAtomic} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		f, err := serve(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		attrs := wire.Attrs{Flags: wire.AttrPermissions | wire.AttrUIDGID, Permissions: 0o755}
		asNobody(func() {
			if err := f.Mkdir(t.Context(), "/d", attrs); err == nil {
				t.Error("a directory of root was made")
			}
			if _, err := f.Open(t.Context(), "/f", wire.OpenWrite|wire.OpenCreate,
				attrs); err == nil {
				t.Error("a file of root was made")
			}
		})
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v are left, %v", left, err)
		}
	}
}

// asNobody does something with the rights of a user who may not give files away.
func asNobody(do func()) {
	if os.Getuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		unix.Setfsuid(nobody)
		defer unix.Setfsuid(0)
	}
	do()
}

func TestKernelCopies(t *testing.T) {
	f, dir, _ := served(t)
	data := make([]byte, 3<<20)
	rand.Read(data)
	write(t, filepath.Join(dir, "from"), string(data))
	from, err := open(f, "/from", wire.OpenRead)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := open(f, "/to", wire.OpenWrite|wire.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	n, err := to.(server.FileCopier).CopyFrom(context.Background(), from, 1000, 1<<40, 10)
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.Unavailable(t, "a file system that copies files")
	}
	if err != nil || n != int64(len(data)-1000) {
		t.Fatalf("copied %d, %v", n, err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "to"))
	if err != nil || !bytes.Equal(got[10:], data[1000:]) {
		t.Error("the copy differs")
	}
}

// TestCopiedHoles: holes in the source are holes in a new copy, and zeros where there was data
// before.
func TestCopiedHoles(t *testing.T) {
	f, dir, _ := served(t)
	const size, at = 64 << 20, 33 << 20
	data := bytes.Repeat([]byte("data"), 25_000)
	write(t, filepath.Join(dir, "from"), "")
	source, err := os.OpenFile(filepath.Join(dir, "from"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if _, err := source.WriteAt(data, at); err != nil {
		t.Fatal(err)
	}
	if err := source.Truncate(size); err != nil {
		t.Fatal(err)
	}
	from, err := open(f, "/from", wire.OpenRead)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, old := range []int{0, 10, 40 << 20} {
		write(t, filepath.Join(dir, "to"), strings.Repeat("old!", old/4))
		to, err := open(f, "/to", wire.OpenWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		n, err := to.(server.FileCopier).CopyFrom(context.Background(), from, 0, 1<<62, 0)
		if err != nil || n != size {
			t.Fatalf("copied %d, %v", n, err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "to"))
		want := make([]byte, size)
		copy(want[at:], data)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("over %d bytes: the copy differs, %v", old, err)
		}
		var stat unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, "to"), &stat); err != nil ||
			stat.Blocks*512 > 8<<20 {
			t.Errorf("over %d bytes: the copy takes %d blocks, %v", old, stat.Blocks, err)
		}
	}
}

// TestCopyToTheEnd: a copy to a file open for appending is left to the session, which writes to its
// end.
func TestCopyToTheEnd(t *testing.T) {
	f, dir, _ := served(t)
	write(t, filepath.Join(dir, "from"), "new")
	write(t, filepath.Join(dir, "to"), "old")
	from, err := open(f, "/from", wire.OpenRead)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := open(f, "/to", wire.OpenWrite|wire.OpenAppend)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := to.(server.FileCopier).CopyFrom(context.Background(), from, 0, 3,
		0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CopyFrom: %v", err)
	}
}

func TestLinkTimes(t *testing.T) {
	f, dir, _ := served(t)
	write(t, filepath.Join(dir, "f"), "x")
	testenv.Symlink(t, "f", filepath.Join(dir, "l"))
	ctx := context.Background()
	if err := f.Lsetstat(ctx, "/l", wire.Attrs{Flags: wire.AttrACModTime, ATime: 10,
		MTime: 20}); err != nil {
		t.Fatal(err)
	}
	info, err := f.Lstat(ctx, "/l")
	if err != nil || info.ModTime().Unix() != 20 {
		t.Errorf("the link's time is %v, %v", info.ModTime(), err)
	}
	if err := f.Lsetstat(ctx, "/l", wire.Attrs{Flags: wire.AttrPermissions,
		Permissions: 0o600}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the mode of a link: %v", err)
	}
	// What lies behind a link to a directory is found.
	testenv.Symlink(t, ".", filepath.Join(dir, "here"))
	if err := f.Rename(ctx, "/here/f", "/here/g"); err != nil {
		t.Error(err)
	}
	if _, err := f.StatVFS(ctx, "/here"); err != nil {
		t.Error(err)
	}
}

// TestListingOfWhatCannotBeLookedUp: a name that cannot be looked up, as on a bad disk, or where the
// program behind a mount is gone, is listed without attributes. Without the rest of its directory
// nothing beside it could be found, and without its name a sync would delete its copy.
func TestListingOfWhatCannotBeLookedUp(t *testing.T) {
	if os.Getuid() != 0 {
		testenv.Unavailable(t, "only root can mount")
	}
	f, dir, _ := served(t)
	gone := filepath.Join(dir, "gone")
	for _, name := range []string{"a", "gone", "z"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		testenv.Unavailable(t, err)
	}
	err = unix.Mount("gone", gone, "fuse", 0,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", program))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(gone, unix.MNT_DETACH) })
	unix.Close(program)
	listed := map[string]wire.Attrs{}
	for info, err := range f.List(t.Context(), "/") {
		if err != nil {
			t.Fatal(err)
		}
		listed[info.Name()] = server.AttrsOf(info)
		if info.Mode().IsRegular() {
			t.Error(info.Name(), "is taken for a regular file")
		}
	}
	there, ok := listed["gone"]
	if !ok || there.Flags != 0 || listed["a"].Flags == 0 || listed["z"].Flags == 0 {
		t.Errorf("listed %v", listed)
	}
	if err := server.NewQuota(1, 1).Recount(t.Context(), f, "/"); !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("a quota does not notice what it cannot count: %v", err)
	}
}
