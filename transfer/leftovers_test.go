package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestVerifiedTreeLeavesNoTemporaryFiles: if the connection is lost while small files are verified,
// they are copied again, and nothing of the first attempt is left.
func TestVerifiedTreeLeavesNoTemporaryFiles(t *testing.T) {
	const files = 20
	var reads atomic.Int64
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeRead && reads.Add(1) == 3 {
			return []sftptest.Action{sftptest.Hangup()}
		}
		return nil
	}}, sftptest.LinkConfig{})
	b.redials(sftptest.LinkConfig{}, nil)
	if err := os.Mkdir(filepath.Join(b.dir, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		b.local(fmt.Sprint("tree/", i), random(40e3+i))
	}
	tree := treeJob{Host: b.host, Source: filepath.Join(b.dir, "tree"), Target: "/copy",
		Options: transfer.Options{Verify: true, Retry: pool.Retry{Retries: 3,
			Backoff: func(int) time.Duration { return 0 }}}}
	if s, err := tree.Run(t.Context()); err != nil || s.Files != files {
		t.Fatalf("%+v, %v", s, err)
	}
	if left := b.temporaries(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestLostOpenIsRemovedByTheNextRun: a temporary file is recorded before it is made, so even if its
// OPEN was never answered the next run of the same copy removes it.
func TestLostOpenIsRemovedByTheNextRun(t *testing.T) {
	for _, resume := range []bool{false, true} {
		for _, tries := range []int{0, 2} {
			t.Run(fmt.Sprintf("resume %v, %d retries", resume, tries), func(t *testing.T) {
				var healthy atomic.Bool
				b := newBench(t, sftptest.Script{
					Intercept: func(r sftptest.Request) []sftptest.Action {
						if r.Type == wire.TypeOpen && !healthy.Load() {
							return []sftptest.Action{sftptest.LastReply(), sftptest.Drop()}
						}
						return nil
					}}, sftptest.LinkConfig{})
				b.redials(sftptest.LinkConfig{}, nil)
				source := b.local("source", random(1<<20))
				options := func(j *copyJob) {
					j.Options.Journal = filepath.Join(b.dir, "journal")
					j.Options.Resume, j.Options.Retries = resume, tries
					j.Options.Backoff = func(int) time.Duration { return 0 }
				}
				if _, err := b.job(upload, source, "/target", options); err == nil {
					t.Fatal("it was copied")
				}
				if len(b.temporaries()) == 0 {
					t.Fatal("nothing is left that could be removed")
				}
				healthy.Store(true)
				b.redials(sftptest.LinkConfig{}, nil)
				if _, err := b.job(upload, source, "/target", options); err != nil {
					t.Fatal(err)
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
				if notes, _ := os.ReadDir(filepath.Join(b.dir, "journal")); len(notes) > 0 {
					t.Errorf("%d notes are left in the journal", len(notes))
				}
			})
		}
	}
}

// TestNothingIsLeftThatCannotBeContinued: a source without a size or times, such as a device, is
// never continued, journal or not, so an interrupted copy of it leaves nothing.
func TestNothingIsLeftThatCannotBeContinued(t *testing.T) {
	t.Parallel()
	for _, hidden := range []uint32{wire.AttrACModTime, wire.AttrSize} {
		t.Run(fmt.Sprintf("attributes %#x hidden", hidden), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, sftptest.Script{HideAttrs: hidden},
					sftptest.LinkConfig{RateBytesPerSec: 1 << 20, Window: 256 << 10})
				b.server.Files.WriteFile("/source", random(20<<20))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				result, err := b.jobContext(ctx, download, "/source", filepath.Join(b.dir, "target"),
					func(j *copyJob) { j.Options.Journal = filepath.Join(b.dir, "journal") })
				if !errors.Is(err, context.DeadlineExceeded) || result.Bytes == 0 ||
					result.LeftBehind != "" || strings.Contains(err.Error(), "left") {
					t.Errorf("%+v, %v", result, err)
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
			})
		})
	}
}

// TestNothingIsLeftWithoutAJournal: what nobody can continue is removed when the context ends.
func TestNothingIsLeftWithoutAJournal(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download} {
		for _, tries := range []int{0, 3} {
			t.Run(fmt.Sprintf("%v, %d retries", direction, tries), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					link := sftptest.LinkConfig{RateBytesPerSec: 1 << 20, Window: 256 << 10}
					b := newBench(t, sftptest.Script{}, link)
					b.redials(link, nil)
					b.server.Files.WriteFile("/source", random(20<<20))
					source, target := b.local("source", random(20<<20)), "/target"
					if direction == download {
						source, target = "/source", filepath.Join(b.dir, "target")
					}
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					result, err := b.jobContext(ctx, direction, source, target,
						func(j *copyJob) { j.Options.Retries = tries })
					if !errors.Is(err, context.DeadlineExceeded) || result.Bytes == 0 ||
						result.LeftBehind != "" || strings.Contains(err.Error(), "left") {
						t.Errorf("%+v, %v", result, err)
					}
					if left := b.temporaries(); len(left) > 0 {
						t.Errorf("left behind: %q", left)
					}
				})
			})
		}
	}
}
