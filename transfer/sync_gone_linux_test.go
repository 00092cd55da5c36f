package transfer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
)

// TestSyncWhoseSourceGoesAway: while a source is listed, a directory in it is renamed away and
// back, again and again, or its file system is unmounted. Nothing is deleted that the source still
// has.
func TestSyncWhoseSourceGoesAway(t *testing.T) {
	const files = 2000
	dir := t.TempDir()
	full, target := filepath.Join(dir, "full"), filepath.Join(dir, "target")
	names := append(numbered("a/f", files), append(numbered("b/c/f", files), "extra")...)
	fill(t, full, names[:2*files]...)
	fill(t, target, names[:2*files]...)
	sshd := opensshd.Start(t, opensshd.Options{})
	host := throughProxy(t, sshd, cutproxy.Start(t, sshd.Addr()))
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	check := func(t *testing.T, err error) {
		t.Helper()
		for _, name := range names[:2*files] {
			if _, gone := os.Lstat(filepath.Join(target, name)); gone != nil {
				t.Fatalf("%s was deleted, and the sync said: %v", name, err)
			}
		}
	}
	for _, direction := range []way{local, download} {
		t.Run("renamed/"+direction.String(), func(t *testing.T) {
			for range soak.Pick(2, 8) {
				fill(t, target, "extra")
				stop, renaming := make(chan struct{}), sync.WaitGroup{}
				inner := filepath.Join(full, []string{"a", "b", "b/c"}[rng.IntN(3)])
				pause := time.Duration(rng.IntN(3000)) * time.Microsecond
				renaming.Go(func() {
					away := filepath.Join(dir, "away")
					for {
						if err := errors.Join(os.Rename(inner, away), os.Rename(away, inner)); err != nil {
							t.Error(err)
						}
						select {
						case <-stop:
							return
						case <-time.After(pause):
						}
					}
				})
				j := &syncJob{direction: direction, far: host, src: full, dst: target,
					options: transfer.SyncOptions{Delete: true, MaxDelete: 1 << 30}}
				_, err := j.run(t)
				close(stop)
				renaming.Wait()
				check(t, err)
			}
		})
		t.Run("unmounted/"+direction.String(), func(t *testing.T) {
			if os.Getuid() != 0 {
				testenv.Unavailable(t, "only root can mount")
			}
			source := filepath.Join(dir, "source")
			if err := os.MkdirAll(source, 0o755); err != nil {
				t.Fatal(err)
			}
			for range soak.Pick(2, 8) {
				fill(t, target, "extra")
				if err := syscall.Mount(full, source, "", syscall.MS_BIND, ""); err != nil {
					testenv.Unavailable(t, fmt.Errorf("a bind mount: %w", err))
				}
				var once sync.Once
				unmount := func() {
					once.Do(func() {
						if err := syscall.Unmount(source, 2 /* MNT_DETACH */); err != nil {
							t.Error(err)
						}
					})
				}
				timer := time.AfterFunc(time.Duration(rng.IntN(60))*time.Millisecond, unmount)
				j := &syncJob{direction: direction, far: host, src: source, dst: target,
					options: transfer.SyncOptions{Delete: true, MaxDelete: 1 << 30}}
				_, err := j.run(t)
				timer.Stop()
				unmount()
				check(t, err)
			}
		})
	}
}
