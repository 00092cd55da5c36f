//go:build linux || darwin || freebsd

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// A swapper is a host on which somebody puts a link in the place of a directory just when a request
// has arrived, after all that a client could look at.
type swapper struct {
	*osfs.FS
	arrived func(request, name string)
}

func (s *swapper) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	s.arrived("open", name)
	return s.FS.Open(ctx, name, flags, attrs)
}

func (s *swapper) Mkdir(ctx context.Context, name string, attrs wire.Attrs) error {
	s.arrived("mkdir", name)
	return s.FS.Mkdir(ctx, name, attrs)
}

func (s *swapper) Symlink(ctx context.Context, to, name string) error {
	s.arrived("symlink", name)
	return s.FS.Symlink(ctx, to, name)
}

func (s *swapper) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	s.arrived("setstat", name)
	return s.FS.Setstat(ctx, name, attrs)
}

func (s *swapper) Lsetstat(ctx context.Context, name string, attrs wire.Attrs) error {
	s.arrived("lsetstat", name)
	return s.FS.Lsetstat(ctx, name, attrs)
}

func (s *swapper) Remove(ctx context.Context, name string) error {
	s.arrived("remove", name)
	return s.FS.Remove(ctx, name)
}

func (s *swapper) Rename(ctx context.Context, from, to string) error {
	s.arrived("rename", to)
	return s.FS.Rename(ctx, from, to)
}

func (s *swapper) PosixRename(ctx context.Context, from, to string) error {
	s.arrived("posix-rename", to)
	return s.FS.PosixRename(ctx, from, to)
}

// removal returns what calls swap when the first request arrives that removes or moves something.
func removal(swap func()) func(request, name string) {
	var once sync.Once
	return func(request, _ string) {
		if request == "remove" || request == "rename" {
			once.Do(swap)
		}
	}
}

// swapDeep puts a link to outside in the place of dst/d/deep; all are in dir.
func swapDeep(t *testing.T, dir string) {
	deep := filepath.Join(dir, "dst/d/deep")
	if err := os.Rename(deep, filepath.Join(dir, "aside")); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("../../outside", deep); err != nil {
		t.Error(err)
	}
}

// syncSwapped syncs to dst on a host that serves dir, while somebody calls swapDeep. The sync must
// fail, and delete nothing outside of dst.
func syncSwapped(t *testing.T, host pool.Host, dir string, o transfer.SyncOptions) *syncJob {
	t.Helper()
	src, outside := t.TempDir(), filepath.Join(dir, "outside")
	fill(t, src, "kept", "d/kept")
	fill(t, filepath.Join(dir, "dst"), "kept", "d/kept", "d/deep/extra")
	fill(t, outside, "extra")
	j := &syncJob{direction: upload, far: host, src: src, dst: "/dst", options: o}
	summary, err := j.run(t)
	if _, gone := os.Stat(filepath.Join(outside, "extra")); gone != nil {
		t.Errorf("outside of the target: %v", gone)
	}
	if err == nil || summary.Failed == 0 {
		t.Errorf("it ended with %+v, %v", summary.Totals, err)
	}
	return j
}

// On our server nothing outside of the target is deleted or moved away, whatever links are swapped
// in and when.
func TestSyncDeletesBeneathTheTarget(t *testing.T) {
	for name, o := range map[string]transfer.SyncOptions{
		"deleted":    {Delete: true},
		"moved away": {Delete: true, BackupDir: ".old"},
	} {
		t.Run(name, func(t *testing.T) {
			var s *swapper
			host, dir := hostOf(t, func(files *osfs.FS) server.FS {
				s = &swapper{FS: files}
				return s
			}, nil)
			s.arrived = removal(func() { swapDeep(t, dir) })
			j := syncSwapped(t, host, dir, o)
			// run again, with the link as an entry of its own, it ends equal
			if summary, err := j.run(t); err != nil || summary.Deleted == 0 {
				t.Errorf("again: %+v, %v", summary.Totals, err)
			}
			if _, gone := os.Stat(filepath.Join(dir, "outside/extra")); gone != nil {
				t.Errorf("outside of the target, in the second run: %v", gone)
			}
		})
	}
}

// below describes everything in a directory.
func below(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		all = append(all, fmt.Sprint(name, info.Mode(), info.ModTime(), info.Size()))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return all
}

// Copies to our server change nothing outside of the target, whatever links are swapped in and
// when.
func TestCopiesBeneathTheTarget(t *testing.T) {
	run := func(t *testing.T, how string, host pool.Host, src string, o transfer.Options) error {
		if how == "sync" {
			j := &syncJob{direction: upload, far: host, src: src, dst: "/dst"}
			j.options.Options = o
			_, err := j.run(t)
			return err
		}
		o.Attributes.Preserve, o.NoTargetDirectory = true, true
		_, err := transfer.CopyTree(t.Context(), transfer.Remote(host, "/dst"),
			transfer.Local(src), transfer.TreeOptions{Options: o})
		return err
	}
	for _, test := range []struct {
		how           string
		request, name string // when the directory above it is swapped
		placement     transfer.Placement
	}{
		{"sync", "open", "", transfer.PlaceAuto},
		{"cp", "open", "", transfer.PlaceAuto},
		{"sync", "open", "", transfer.PlaceDirect},
		{"cp", "open", "", transfer.PlaceDirect},
		{"sync", "posix-rename", "", transfer.PlaceAuto},
		{"cp", "posix-rename", "", transfer.PlaceAuto},
		{"sync", "mkdir", "new", transfer.PlaceAuto},
		{"cp", "mkdir", "new", transfer.PlaceAuto},
		{"sync", "symlink", "", transfer.PlaceAuto},
		{"cp", "symlink", "", transfer.PlaceAuto},
		{"sync", "lsetstat", "mode", transfer.PlaceAuto},
		{"sync", "lsetstat", "dir", transfer.PlaceAuto},
		{"cp", "lsetstat", "dir", transfer.PlaceAuto},
		{"sync", "setstat", "new", transfer.PlaceAuto},
	} {
		name := fmt.Sprintln(test.how, test.request, test.name, test.placement)
		t.Run(strings.TrimSpace(name), func(t *testing.T) {
			var s *swapper
			host, dir := hostOf(t, func(files *osfs.FS) server.FS {
				s = &swapper{FS: files}
				return s
			}, nil)
			src, outside := t.TempDir(), filepath.Join(dir, "outside")
			old := []string{"d/deep/changed", "d/deep/mode", "d/deep/dir/file", "d/deep/new/file"}
			fill(t, src, old...)
			fill(t, filepath.Join(dir, "dst"), old[:3]...)
			fill(t, outside, "changed", "mode", "dir/file")
			for _, root := range []string{src, filepath.Join(dir, "dst")} { // only the mode differs
				mode := filepath.Join(root, old[1])
				if err := errors.Join(os.WriteFile(mode, []byte("same"), 0o644),
					os.Chtimes(mode, oldTime, oldTime)); err != nil {
					t.Fatal(err)
				}
			}
			newer := []error{os.WriteFile(filepath.Join(src, old[0]), []byte("new"), 0o644),
				os.Chmod(filepath.Join(src, old[1]), 0o600),
				os.Chmod(filepath.Join(src, "d/deep/dir"), 0o700),
				os.Symlink("to", filepath.Join(src, "d/deep/link"))}
			if err := errors.Join(newer...); err != nil {
				t.Fatal(err)
			}
			before := below(t, outside)
			var swapped atomic.Bool
			s.arrived = func(request, name string) {
				in, last := path.Split(name)
				if request == test.request && in == "/dst/d/deep/" &&
					(test.name == "" || test.name == last) && swapped.CompareAndSwap(false, true) {
					swapDeep(t, dir)
				}
			}
			o := transfer.Options{Placement: test.placement}
			if err := run(t, test.how, host, src, o); err == nil {
				t.Error("it ended well")
			}
			if !swapped.Load() {
				t.Fatal("no such request was made")
			}
			if after := below(t, outside); !slices.Equal(before, after) {
				t.Errorf("outside of the target:\n%q, before\n%q", after, before)
			}
		})
	}
}

// TestSyncLosesTheServerThatDeletesBeneath: a sync that leaves links to a server with beneath@usftp
// looks at directories itself once its connection was replaced by one to a server without.
func TestSyncLosesTheServerThatDeletesBeneath(t *testing.T) {
	for name, o := range map[string]transfer.SyncOptions{
		"deleted":    {Delete: true},
		"moved away": {Delete: true, BackupDir: ".old"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files, err := osfs.New(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { files.Close() })
			first := &swapper{FS: files}
			stream, _ := serve(t, first, nil)
			host := connect(t, stream)
			host.Redial = func(context.Context) (pool.Host, error) {
				return hostOver(t, dir, func(files *osfs.FS) server.FS {
					return files
				}, []string{"beneath"}), nil
			}
			first.arrived = removal(func() {
				swapDeep(t, dir)
				stream.Close()
			})
			o.Options.Retries = 1
			o.Options.Backoff = func(int) time.Duration { return 0 }
			syncSwapped(t, host, dir, o)
		})
	}
}
