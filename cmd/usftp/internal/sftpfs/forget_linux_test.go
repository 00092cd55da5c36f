package sftpfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// The kernel forgets what it is asked to, although a call is under way in the same directory, and
// programs notice nothing: their working directories and descriptors keep their names.
func TestKernelForgets(t *testing.T) {
	const most, dirs, files = 50, 20, 20
	s := mountScripted(t, time.Minute, sftptest.Script{})
	for i := range dirs {
		for j := range files {
			s.server.Files.WriteFile(fmt.Sprintf("/dir%d/file%d", i, j), nil)
		}
	}
	s.tree.maxNodes = most
	at := t.TempDir()
	server, err := fuse.NewServer(s.FS, at, &fuse.MountOptions{DisableXAttrs: true})
	if err != nil {
		testenv.Unavailable(t, err)
	}
	go server.Serve()
	defer server.Unmount()
	if err := server.WaitMount(); err != nil {
		t.Fatal(err)
	}
	if !s.tree.prunes {
		t.Log("this kernel forgets by names")
	}
	held := filepath.Join(at, "dir0", "file0")
	fd, err := unix.Open(held, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	dir, err := unix.Open(filepath.Dir(held), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	gate := new(sftptest.Gate)
	defer gate.Open()
	missing := filepath.Join(at, "dir1", "missing")
	s.server.AddFaults(sftptest.Fault{On: wire.TypeLstat, Path: "/dir1/missing",
		Do: sftptest.Hold(gate)})
	looked := make(chan error)
	go func() { _, err := os.Lstat(missing); looked <- err }()
	gate.Wait(1)
	look := func() {
		for i := range dirs {
			for j := range files {
				name := filepath.Join(at, fmt.Sprint("dir", i), fmt.Sprint("file", j))
				if _, err := os.Lstat(name); err != nil {
					t.Error(err)
				}
			}
		}
	}
	look()
	count := func() int {
		s.tree.mu.RLock()
		defer s.tree.mu.RUnlock()
		return len(s.tree.byID)
	}
	bounded := func(most int) {
		t.Helper()
		testenv.Until(t, fmt.Sprintf("%d nodes are left", most), func() bool {
			return count() <= most
		})
	}
	if s.tree.prunes {
		bounded(most + 2) // what is held
		for fd, want := range map[int]string{fd: held, dir: filepath.Dir(held)} {
			name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			if err != nil || name != want {
				t.Errorf("%q, %v, want %q", name, err, want)
			}
		}
	}
	gate.Open()
	if err := <-looked; !os.IsNotExist(err) {
		t.Error(err)
	}
	look()
	bounded(most + dirs)
}
