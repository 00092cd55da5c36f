package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestDeltaResumedAtItsEnd: a copy that is interrupted while the host hashes it has all its bytes.
// It fails with the reason, and the next run takes it over.
func TestDeltaResumedAtItsEnd(t *testing.T) {
	t.Parallel()
	for _, hash := range []checksum.Algorithm{"", checksum.SHA256, checksum.BLAKE3} {
		for _, direction := range []way{upload, download} {
			t.Run(fmt.Sprintf("%v, hash %q", direction, hash), func(t *testing.T) {
				stop := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var finishing, lost, again atomic.Bool
				host, _, far := deltaHost(t, func(packet []byte) [][]byte {
					kind, _, body, err := wire.ParseHeader(packet)
					var list wire.ChunksReply
					hashed := bytes.HasPrefix(body[min(len(body), 4):], []byte("sha256")) ||
						bytes.HasPrefix(body[min(len(body), 4):], []byte("blake3"))
					if err == nil && kind == wire.TypeExtendedReply && hashed &&
						list.Parse(body) != nil && !again.Load() && !lost.Swap(true) {
						return nil // the answer to the only check-file of the first run
					}
					return [][]byte{packet}
				})
				old := random(2 << 20)
				fresh := bytes.Clone(old)
				copy(fresh[1<<20:], noiseOf(3, 50_000))
				source, target, stored := deltaFiles(t, direction, far, fresh, old)
				j := copyJob{Host: host, Direction: direction, Source: source, Target: target}
				always(&j)
				j.Options.Hash = hash
				j.Options.SetProgressEvery(1e6)
				j.Options.Journal, j.Options.Resume = filepath.Join(t.TempDir(), "journal"), true
				j.Options.Events = func(e transfer.Event) {
					if e.Finishing && !finishing.Swap(true) {
						cancel(stop)
					}
				}
				if _, err := j.Run(ctx); !errors.Is(err, stop) ||
					errors.Is(err, transfer.ErrVerify) {
					t.Errorf("it ended with: %v", err)
				}
				again.Store(true) // the first run may have ended before it asked
				j.Options.Events = nil
				result, err := j.Run(t.Context())
				if got, _ := os.ReadFile(stored); err != nil || !bytes.Equal(got, fresh) {
					t.Errorf("what arrived is not the source: %v", err)
				}
				if result.Resumed != int64(len(fresh)) ||
					(hash != "") != (len(result.Hash.Sum) > 0) {
					t.Errorf("%+v", result)
				}
			})
		}
	}
}

// TestDeltaOfSourceThatShrinks: the copy fails, instead of waiting for bytes that never come. With
// Changing, what is left is copied.
func TestDeltaOfSourceThatShrinks(t *testing.T) {
	t.Parallel()
	for _, accepts := range []bool{false, true} {
		testDeltaThatShrinks(t, accepts)
	}
}

func testDeltaThatShrinks(t *testing.T, accepts bool) {
	t.Helper()
	host, _, far := deltaHost(t, nil)
	old := random(12 << 20)
	fresh := append(bytes.Clone(old[:2<<20]), noiseOf(3, 10<<20)...)
	source, target, stored := deltaFiles(t, upload, far, fresh, old)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j := copyJob{Host: host, Direction: upload, Source: source, Target: target}
	always(&j)
	j.Options.RateLimit = 4 << 20
	j.Options.SetProgressEvery(1e6)
	var cut atomic.Bool
	j.Options.Events = func(e transfer.Event) {
		if e.Kind == transfer.Progress && e.Bytes > 5<<20 && !cut.Swap(true) {
			os.Truncate(source, 6<<20)
		}
	}
	j.Options.Changing = accepts
	want := old
	if accepts {
		want = fresh[:6<<20]
	}
	if _, err := j.Run(ctx); accepts != (err == nil) ||
		err != nil && !errors.Is(err, transfer.ErrSourceChanged) {
		t.Errorf("it ended with: %v", err)
	}
	if got, _ := os.ReadFile(stored); !bytes.Equal(got, want) {
		t.Errorf("accepted %v: there are %d bytes, not what should be", accepts, len(got))
	}
}

// TestDeltaOfSourceThatChangesUnseen: what has been hashed when it was listed, and is sent later as
// something else, is no part of the target, even if the source's time tells nothing.
func TestDeltaOfSourceThatChangesUnseen(t *testing.T) {
	t.Parallel()
	host, _, far := deltaHost(t, nil)
	old := random(12 << 20)
	fresh := append(bytes.Clone(old[:2<<20]), noiseOf(3, 10<<20)...)
	source, target, stored := deltaFiles(t, upload, far, fresh, old)
	info, err := os.Stat(source)
	if err != nil {
		t.Fatal(err)
	}
	j := copyJob{Host: host, Direction: upload, Source: source, Target: target}
	always(&j)
	j.Options.RateLimit = 4 << 20
	j.Options.SetProgressEvery(1e6)
	var once atomic.Bool
	var notes []string
	j.Options.Events = func(e transfer.Event) {
		switch {
		case e.Kind == transfer.Note:
			notes = append(notes, e.Message)
		case e.Kind == transfer.Progress && e.Bytes > 5<<20 && !once.Swap(true):
			copy(fresh[12<<20-10:], "changed")
			f, err := os.OpenFile(source, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(fresh[12<<20-10:], 12<<20-10)
				f.Close()
			}
			if err = errors.Join(err, os.Chtimes(source, info.ModTime(), info.ModTime())); err != nil {
				t.Error(err)
			}
		}
	}
	result, err := j.Run(t.Context())
	if err != nil || result.Reused != 0 || len(notes) != 1 ||
		!strings.Contains(notes[0], "all of it is copied") {
		t.Errorf("%d bytes came from the old file; notes %q; then %v", result.Reused, notes, err)
	}
	if got, _ := os.ReadFile(stored); !bytes.Equal(got, fresh) {
		t.Error("what arrived is not the source")
	}
}

// TestDeltaIsContinuedByHashOnly: a run that finds what a delta left, but a host that no longer
// hashes, starts over. The end of what is there proves nothing about parts of the old file.
func TestDeltaIsContinuedByHashOnly(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download} {
		t.Run(fmt.Sprint(direction), func(t *testing.T) {
			host, far := ourHost(t)
			j, stored, left, fresh := interruptedDelta(t, host, far, direction, true)
			f, err := os.OpenFile(left, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte("wrong"), 1<<20); err != nil {
				t.Fatal(err)
			}
			f.Close()
			j.Host = hostOver(t, far, func(files *osfs.FS) server.FS { return files },
				[]string{"check-file-handle", "check-file-name"})
			result, err := j.Run(t.Context())
			if got, _ := os.ReadFile(stored); err != nil || !bytes.Equal(got, fresh) {
				t.Errorf("what arrived is not the source: %v", err)
			}
			if result.Resumed != 0 {
				t.Errorf("it went on from %d", result.Resumed)
			}
			nothingIn(t, "litter", filepath.Dir(stored), "old", "new")
		})
	}
}
