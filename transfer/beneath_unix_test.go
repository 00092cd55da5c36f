//go:build linux || darwin || freebsd

package transfer_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/transfer"
)

// A swapper is a host on which somebody puts a link in the place of a directory just when the
// request that removes something there has arrived, after all that a client could look at.
type swapper struct {
	*osfs.FS
	once sync.Once
	swap func()
}

func (s *swapper) Remove(ctx context.Context, name string) error {
	s.once.Do(s.swap)
	return s.FS.Remove(ctx, name)
}

func (s *swapper) Rename(ctx context.Context, from, to string) error {
	s.once.Do(s.swap)
	return s.FS.Rename(ctx, from, to)
}

func (s *swapper) RemoveBeneath(ctx context.Context, top, name string) error {
	s.once.Do(s.swap)
	return s.FS.RemoveBeneath(ctx, top, name)
}

func (s *swapper) RenameBeneath(ctx context.Context, top, from, to string) error {
	s.once.Do(s.swap)
	return s.FS.RenameBeneath(ctx, top, from, to)
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
			s.swap = func() { swapDeep(t, dir) }
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
			defer files.Close()
			first := &swapper{FS: files}
			near, far := net.Pipe()
			served := make(chan struct{})
			go func() {
				defer close(served)
				server.Serve(context.Background(), far, first, &server.Options{})
			}()
			defer func() { <-served }()
			client, err := usftp.NewClientPipe(near, near)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			host := pool.Host{Client: client, Name: "ours",
				Redial: func(context.Context) (pool.Host, error) {
					return hostOver(t, dir, func(files *osfs.FS) server.FS {
						return files
					}, []string{"beneath"}), nil
				}}
			first.swap = func() {
				swapDeep(t, dir)
				far.Close()
			}
			o.Options.Retries = 1
			o.Options.Backoff = func(int) time.Duration { return 0 }
			syncSwapped(t, host, dir, o)
		})
	}
}
