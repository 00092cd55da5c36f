package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// TestFullFileSystemKeepsTheTarget: if there is no room for a temporary file, the target is not
// written in place, which would overwrite some of it and then fail for the same reason.
func TestFullFileSystemKeepsTheTarget(t *testing.T) {
	// one inode is the root directory's
	testenv.Mounted(t, "size=64k,nr_inodes=3", fullFileSystem)
}

func fullFileSystem(t *testing.T, dir string) {
	for _, name := range []string{"big", "small"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	tree := filepath.Join(b.dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	b.server.Files.Mkdir("/tree")
	for name, size := range map[string]int{"big": 200e3, "small": 10} {
		b.local("tree/"+name, random(size))
		b.server.Files.WriteFile("/tree/"+name, random(size))
	}
	target := filepath.Join(dir, "big")
	for name, copies := range map[string]func() error{
		"local file": func() error {
			_, err := b.job(local, filepath.Join(tree, "big"), target)
			return err
		},
		"download": func() error {
			_, err := b.job(download, "/tree/big", target)
			return err
		},
		"local tree": func() error {
			tree := treeJob{Direction: local, Source: tree + "/.", Target: dir}
			_, err := tree.Run(t.Context())
			return err
		},
		"downloaded tree": func() error {
			_, err := downloadTree(t.Context(), b.host, "/tree/.", dir, transfer.Options{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := copies()
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "transfer.PlaceDirect") {
				t.Errorf("the error is %v", err)
			}
			for _, name := range []string{"big", "small"} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != "old" {
					t.Errorf("%s holds %d other bytes, %v", name, len(got), err)
				}
			}
		})
	}
	t.Run("new file", func(t *testing.T) {
		_, err := b.job(local, filepath.Join(tree, "small"), filepath.Join(dir, "new"))
		if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "transfer.PlaceDirect") {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestFullDuringDelta: a delta that finds no room fails, since the whole file would find none
// either. The old file is left, and nothing else.
func TestFullDuringDelta(t *testing.T) {
	testenv.Mounted(t, "size=3m", func(t *testing.T, full string) {
		old := random(2 << 20)
		fresh := append([]byte("something new"), old...)
		for _, direction := range []way{upload, download} {
			t.Run(direction.String(), func(t *testing.T) {
				near := t.TempDir()
				far, target := full, "/old"
				if direction == download {
					far, target = near, filepath.Join(full, "old")
				}
				source := map[way]string{upload: filepath.Join(near, "new"), download: "/new"}[direction]
				for name, data := range map[string][]byte{filepath.Join(near, "new"): fresh,
					filepath.Join(full, "old"): old} {
					if err := os.WriteFile(name, data, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				files, err := osfs.New(far)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { files.Close() })
				host, _ := deltaHostOf(t, files, nil)
				j := copyJob{Host: host, Direction: direction, Source: source, Target: target}
				always(&j)
				j.Options.Events = func(e transfer.Event) {
					if strings.Contains(e.Message, "all of it is copied") {
						t.Error(e.Message)
					}
				}
				if _, err := j.Run(t.Context()); !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("the error is %v", err)
				}
				if got, err := os.ReadFile(filepath.Join(full, "old")); !bytes.Equal(got, old) {
					t.Errorf("the old file has %d other bytes: %v", len(got), err)
				}
				nothingIn(t, "litter", full, "old")
			})
		}
	})
}

// TestFullBeforeSync: a lock for which there is no room is said to be that, and is not left behind
// empty, which would keep this run and others out.
func TestFullBeforeSync(t *testing.T) {
	testenv.Mounted(t, "size=64k", func(t *testing.T, full string) {
		src := t.TempDir()
		fill(t, src, "file")
		dst := filepath.Join(full, "dst")
		if err := os.Mkdir(dst, 0o755); err != nil {
			t.Fatal(err)
		}
		err := os.WriteFile(filepath.Join(full, "filling"), make([]byte, 128<<10), 0o644)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the file system is not full: %v", err)
		}
		everyWay(t, func(t *testing.T, direction way, far pool.Host) {
			to, from := direction.endpoints(far, far, src, dst, nil, nil)
			_, err := transfer.Sync(t.Context(), to, from, transfer.SyncOptions{})
			if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, transfer.ErrLocked) {
				t.Errorf("the error is %v", err)
			}
			nothingIn(t, "a lock", dst)
		})
	})
}

// TestSyncDeletesOnAFullDisk: a sync that finds no room for its lock file can still delete, which
// makes room. It says that it has no lock.
func TestSyncDeletesOnAFullDisk(t *testing.T) {
	for name, options := range map[string]string{"no blocks": "size=64k", "no inodes": "nr_inodes=20"} {
		t.Run(name, func(t *testing.T) {
			testenv.Mounted(t, options, func(t *testing.T, full string) {
				everyWay(t, func(t *testing.T, direction way, far pool.Host) {
					src, dst := t.TempDir(), filepath.Join(full, "dst")
					for _, dir := range []string{src, dst} {
						name := filepath.Join(dir, "file")
						if err := errors.Join(os.MkdirAll(dir, 0o755),
							os.WriteFile(name, []byte("same"), 0o644),
							os.Chtimes(name, oldTime, oldTime)); err != nil {
							t.Fatal(err)
						}
					}
					fillUp(t, dst)
					var said []string
					options := transfer.SyncOptions{Delete: true, MaxDelete: 100}
					options.Events = func(e transfer.Event) { said = append(said, e.Message) }
					to, from := direction.endpoints(far, far, src, dst, nil, nil)
					if _, err := transfer.Sync(t.Context(), to, from, options); err != nil {
						t.Error(err)
					}
					if !strings.Contains(strings.Join(said, "\n"), "no room for the lock file") {
						t.Errorf("the events say %q", said)
					}
					nothingIn(t, "an extra", dst, "file")
				})
			})
		})
	}
}

// TestSyncMakesRoom: where there is no room for what is new, nothing is deleted, and a sync that only
// deletes makes room.
func TestSyncMakesRoom(t *testing.T) {
	testenv.Mounted(t, "size=64k", func(t *testing.T, full string) {
		everyWay(t, func(t *testing.T, direction way, far pool.Host) {
			src, dst := t.TempDir(), filepath.Join(full, "dst")
			fill(t, src, "file")
			if err := errors.Join(os.WriteFile(filepath.Join(src, "new"), random(40<<10), 0o644),
				os.Mkdir(dst, 0o755)); err != nil {
				t.Fatal(err)
			}
			fillUp(t, dst)
			os.Remove(filepath.Join(dst, "extra0")) // room for the lock
			to, from := direction.endpoints(far, far, src, dst, nil, nil)
			o := transfer.SyncOptions{Delete: true, MaxDelete: 100}
			if _, err := transfer.Sync(t.Context(), to, from, o); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("on the full disk: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dst, "extra1")); err != nil {
				t.Error(err)
			}
			only := o
			only.Only = transfer.SyncOnly{Existing: true, IgnoreExisting: true}
			if s, err := transfer.Sync(t.Context(), to, from, only); err != nil || s.Files != 0 {
				t.Errorf("deleting only: %+v, %v", s, err)
			}
			if _, err := transfer.Sync(t.Context(), to, from, o); err != nil {
				t.Error(err)
			}
			sameTrees(t, src, dst)
			if err := os.RemoveAll(dst); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// fillUp makes files in a directory until its file system has room for none.
func fillUp(t *testing.T, dir string) {
	t.Helper()
	for i := range 100 {
		name := filepath.Join(dir, fmt.Sprint("extra", i))
		if err := os.WriteFile(name, make([]byte, 8<<10), 0o644); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("the file system is not full")
}
