package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// extents are the data in a file with holes elsewhere.
type extents []struct{ off, n int }

var holeySizes = map[string]struct {
	size    int
	extents extents
}{
	"all a hole":   {4 << 20, nil},
	"data first":   {4 << 20, extents{{0, 256 << 10}}},
	"much data":    {8 << 20, extents{{2 << 20, 3 << 20}}},
	"data last":    {4 << 20, extents{{15 << 18, 256 << 10}}},
	"data between": {4 << 20, extents{{256 << 10, 300_000}, {3 << 18, 1}, {9<<18 + 5, 512 << 10}}},
	"small holes": {4 << 20, extents{{1 << 20, 8192}, {1<<20 + 16384, 8192},
		{1<<20 + 32768, 4096}}},
	"an odd end":     {4<<20 + 7, extents{{5 << 18, 10}, {4 << 20, 7}}},
	"an odd hole":    {4<<20 + 7, extents{{5 << 18, 10}}},
	"a small packet": {300_000, extents{{0, 4096}}},
}

// holeyFile makes a local file with holes, on a disk, and returns its contents.
func (b *bench) holeyFile(name string, size int, data extents) (path string, contents []byte) {
	b.t.Helper()
	b.dir = testenv.OnDisk(b.t)
	path, contents = filepath.Join(b.dir, name), make([]byte, size)
	f, err := os.Create(path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	for _, e := range data {
		copy(contents[e.off:], random(e.n))
		if _, err := f.WriteAt(contents[e.off:e.off+e.n], int64(e.off)); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := f.Truncate(int64(size)); err != nil {
		b.t.Fatal(err)
	}
	if stored(b.t, path) > int64(size)*3/4 {
		testenv.Unavailable(b.t, "a file system that keeps holes")
	}
	return path, contents
}

// stored returns the disk space that a file takes.
func stored(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// TestHolesAreNotSent: uploads skip holes, and downloads recreate them with Sparse.
func TestHolesAreNotSent(t *testing.T) {
	t.Parallel()
	for name, c := range holeySizes {
		t.Run(name, func(t *testing.T) {
			var sent int
			script := sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type == wire.TypeWrite {
					sent += int(r.Length)
				}
				return nil
			}}
			b := newBench(t, script, sftptest.LinkConfig{})
			source, data := b.holeyFile("source", c.size, c.extents)
			sum := sha256.Sum256(data)
			hashed := func(j *copyJob) { j.Options.Hash = checksum.SHA256 }
			result, err := b.job(upload, source, "/target", hashed)
			if err != nil || result.Bytes != int64(c.size) ||
				!bytes.Equal(b.remote("/target"), data) || !bytes.Equal(result.Hash.Sum, sum[:]) {
				t.Fatalf("%+v, %v, or what was stored differs", result, err)
			}
			if last := b.events[len(b.events)-1]; last.Bytes != int64(c.size) {
				t.Errorf("the last event: %+v", last)
			}
			most := 16 << 10
			for _, e := range c.extents {
				most += e.n + 16<<10 // file system blocks and pages
			}
			if sent > most {
				t.Errorf("%d bytes were sent, and %d would have done", sent, most)
			}
			for _, change := range []func(*copyJob){
				func(*copyJob) {}, func(j *copyJob) {
					j.Options.RateLimit = 1 << 32
				}, func(j *copyJob) { j.Options.Placement = transfer.PlaceDirect },
			} {
				result, err = b.job(download, "/target", filepath.Join(b.dir, "back"),
					change, hashed, func(j *copyJob) { j.Options.Sparse = true })
				if err != nil || result.Bytes != int64(c.size) ||
					!bytes.Equal(b.read("back"), data) || !bytes.Equal(result.Hash.Sum, sum[:]) {
					t.Fatalf("%+v, %v, or what came back differs", result, err)
				}
				if room := stored(t, filepath.Join(b.dir, "back")); room > int64(most) {
					t.Errorf("it takes %d bytes", room)
				}
				result, err = b.job(local, source, filepath.Join(b.dir, "copy"), change,
					hashed)
				if err != nil || !bytes.Equal(result.Hash.Sum, sum[:]) ||
					!bytes.Equal(b.read("copy"), data) ||
					stored(t, filepath.Join(b.dir, "copy")) > int64(most) {
					t.Errorf("the local copy: %+v, %v, or it differs, or takes more room", result,
						err)
				}
			}
		})
	}
}

// TestHolesInPlace: an existing file that is written in place gets zeros for holes.
func TestHolesInPlace(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	source, data := b.holeyFile("source", 1<<20, extents{{500_000, 10}})
	for _, old := range []int{10, 2 << 20} {
		b.server.Files.WriteFile("/target", random(old))
		result, err := b.job(upload, source, "/target",
			func(j *copyJob) { j.Options.Placement = transfer.PlaceDirect })
		if err != nil || !result.InPlace || !bytes.Equal(b.remote("/target"), data) {
			t.Errorf("%+v, %v, or what was stored differs", result, err)
		}
	}
}

// TestHostsThatTakeNoHoles: such a host gets the whole file, and a note says so.
func TestHostsThatTakeNoHoles(t *testing.T) {
	looked := false
	// as on a host that ignores offsets
	shorter := func(r sftptest.Request) []sftptest.Action {
		if r.Type != wire.TypeFstat || looked {
			return nil
		}
		looked = true
		return []sftptest.Action{sftptest.Resize(r.Path, 300_010)}
	}
	for name, script := range map[string]sftptest.Script{
		"in order": {SequentialWrites: true},
		"shorter":  {Intercept: shorter},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, script, sftptest.LinkConfig{})
			source, data := b.holeyFile("source", 4<<20, extents{{1 << 20, 300_000}, {3 << 20, 10}})
			result, err := b.job(upload, source, "/target")
			if err != nil || result.Bytes != int64(len(data)) ||
				!bytes.Equal(b.remote("/target"), data) {
				t.Errorf("%+v, %v, or what was stored differs", result, err)
			}
			if notes := strings.Join(b.notes(),
				"\n"); notes != "the host does not accept a file in parts: its holes are sent too" {
				t.Errorf("the notes: %q", notes)
			}
			if left := b.temporaries(); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestResumeHoles: an interrupted copy of a file with holes is continued from any point.
func TestResumeHoles(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	for skip := range 6 {
		for _, cut := range []bool{false, true} {
			script := sftptest.Script{}
			writes := 0
			ctx, cancel := context.WithCancelCause(context.Background())
			script.Intercept = func(r sftptest.Request) []sftptest.Action {
				if r.Type != wire.TypeWrite || r.Stream > 1 {
					return nil
				}
				if writes++; writes <= skip {
					return nil
				}
				if cut {
					return []sftptest.Action{sftptest.Hangup()}
				}
				cancel(stop)
				return nil
			}
			b := newBench(t, script, sftptest.LinkConfig{})
			source, data := b.holeyFile("source", 16<<20,
				extents{{1 << 20, 300_000}, {3 << 20, 10}, {8 << 20, 300_000}, {15 << 20, 10}})
			result, err := b.jobContext(ctx, upload, source, "/target",
				func(j *copyJob) { j.Options.Journal = filepath.Join(b.dir, "journal") })
			cancel(nil)
			if err == nil { // it finished before it was stopped
				if !bytes.Equal(b.remote("/target"), data) {
					t.Errorf("%d: what was stored differs", skip)
				}
				continue
			}
			safe := result.Bytes
			b.reconnect(sftptest.LinkConfig{})
			result, err = b.job(upload, source, "/target", func(j *copyJob) {
				j.Options.Journal, j.Options.Resume = filepath.Join(b.dir, "journal"), true
			})
			if err != nil || result.Resumed != safe || result.Bytes != int64(len(data)) ||
				!bytes.Equal(b.remote("/target"), data) {
				t.Errorf("%d, %v: %d bytes were safe; %+v, %v, or what was stored differs; %q",
					skip, cut, safe, result, err, b.notes())
			}
		}
	}
}

// TestResumeHolesAfterAKill: a run that was killed had counted the hole behind the data that had
// arrived, though the file on the host ends before it.
func TestResumeHolesAfterAKill(t *testing.T) {
	t.Parallel()
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeWrite && r.Stream == 1 && r.Offset >= 10<<20 {
			return []sftptest.Action{sftptest.Hangup()}
		}
		return nil
	}}, sftptest.LinkConfig{})
	source, data := b.holeyFile("source", 16<<20, extents{{0, 4 << 20}, {12 << 20, 1 << 20}})
	journal := filepath.Join(b.dir, "journal")
	options := func(j *copyJob) { j.Options.Journal, j.Options.Resume = journal, true }
	first, err := b.job(upload, source, "/target", options)
	if err == nil || first.LeftBehind == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	marks, err := filepath.Glob(filepath.Join(journal, "*"))
	if err != nil || len(marks) != 1 {
		t.Fatalf("%q, %v", marks, err)
	}
	mark, err := os.ReadFile(marks[0])
	have := fmt.Appendf(nil, `"bytes":%d,`, first.Bytes)
	if err != nil || !bytes.Contains(mark, have) {
		t.Fatalf("the mark is %s, %v", mark, err)
	}
	mark = bytes.Replace(mark, have, fmt.Appendf(nil, `"bytes":%d,`, 12<<20), 1)
	if err := os.WriteFile(marks[0], mark, 0o600); err != nil {
		t.Fatal(err)
	}
	b.server.Files.WriteFile(first.LeftBehind, data[:4<<20])
	b.reconnect(sftptest.LinkConfig{})
	second, err := b.job(upload, source, "/target", options)
	if err != nil || second.Resumed != 4<<20 || !bytes.Equal(b.remote("/target"), data) {
		t.Errorf("%+v, %v, or what was stored differs; %q", second, err, b.notes())
	}
}

// TestHolesOverLongLink: several connections share the data to send.
func TestHolesOverLongLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const trip = 400 * time.Millisecond
		h := &farHost{server: sftptest.NewServer(t, sftptest.Script{}),
			link: sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2, Window: 2 << 20}}
		first, further, end := h.open(t, pool.Config{})
		defer end()
		b := &bench{t: t, dir: t.TempDir(), server: h.server}
		source, data := b.holeyFile("source", 64<<20, extents{{2 << 20, 3 << 20}})
		host := pool.Host{Client: first, Name: "far", Pool: further}
		result, err := uploadFile(t.Context(), host, source, "/little", transfer.Options{})
		if err != nil || result.Stripes != 0 || !bytes.Equal(b.remote("/little"), data) {
			t.Errorf("little data: %+v, %v, or what was stored differs", result, err)
		}
		f, err := os.OpenFile(source, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		copy(data[10<<20:], random(40<<20))
		if _, err := f.WriteAt(data[10<<20:50<<20], 10<<20); err != nil {
			t.Fatal(err)
		}
		f.Close()
		result, err = uploadFile(t.Context(), host, source, "/much", transfer.Options{})
		if err != nil || result.Stripes == 0 || !bytes.Equal(b.remote("/much"), data) {
			t.Errorf("much data: %+v, %v, or what was stored differs", result, err)
		}
		back := filepath.Join(b.dir, "back")
		result, err = downloadFile(t.Context(), host, "/much", back,
			transfer.Options{Contents: transfer.Contents{Sparse: true}})
		if err != nil || result.Stripes == 0 || !bytes.Equal(b.read("back"), data) ||
			stored(t, back) > 44<<20 {
			t.Errorf("down: %+v, %v, or what came differs, or takes %d bytes", result, err,
				stored(t, back))
		}
	})
}

// TestLimitedProgressOfSparseFile: under a rate limit, data between holes is sent piece by piece.
func TestLimitedProgressOfSparseFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 20 << 10
		b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{
			ToServer: 20 * time.Millisecond, ToClient: 20 * time.Millisecond})
		source, data := b.holeyFile("source", 100<<20,
			extents{{0, 10 * rate}, {64 << 20, 10 * rate}})
		var gaps progressGaps
		r, err := uploadFile(t.Context(), b.host, source, "/target",
			transfer.Options{RateLimit: rate, Events: gaps.event(t)})
		if err != nil || !bytes.Equal(b.remote("/target"), data) {
			t.Error(err)
		}
		if r.Elapsed > 25*time.Second {
			t.Errorf("it took %v, so holes were sent", r.Elapsed)
		}
		gaps.check(t, r.Elapsed)
	})
}
