package transfer_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// random returns bytes that depend on nothing but their number. A cipher makes them because that
// costs next to nothing, under the race detector too.
func random(size int) []byte {
	block, err := aes.NewCipher(fmt.Appendf(nil, "%016d", size))
	if err != nil {
		panic(err)
	}
	data := make([]byte, size)
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(data, data)
	return data
}

func TestUploadAndDownload(t *testing.T) {
	for _, size := range []int{0, 1, 261120, 3<<20 + 5} {
		b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		data := random(size)
		b.server.Files.Mkdir("/dir")
		result, err := b.job(upload, b.local("a", data), "/dir")
		if err != nil {
			t.Fatal(err)
		}
		if result.Target != "/dir/a" || result.Bytes != int64(size) || result.InPlace {
			t.Errorf("the result is %+v", result)
		}
		if !bytes.Equal(b.remote("/dir/a"), data) {
			t.Errorf("%d bytes arrived changed", size)
		}
		result, err = b.job(download, "/dir/a", filepath.Join(b.dir, "b"))
		if err != nil || result.Bytes != int64(size) {
			t.Fatal(result, err)
		}
		if !bytes.Equal(b.read("b"), data) {
			t.Errorf("%d bytes came back changed", size)
		}
		if first, last := b.events[0], b.events[len(b.events)-1]; first.Kind != transfer.Started ||
			first.Size != int64(size) ||
			last.Kind != transfer.Done || last.Bytes != int64(size) || last.SourceHost != "far" {
			t.Errorf("the events are %+v", b.events)
		}
		if left := b.temporaries(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		b.host.Client.Stat("/") // comes after the CLOSE that nobody waited for
		if n := b.server.OpenHandles(); n != 0 {
			t.Errorf("%d handles are open", n)
		}
	}
}

func TestReplacedFilesKeepTheirPermissions(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/old", []byte("old"))
	b.server.Files.SetMode("/old", 0o604)
	if _, err := b.job(upload, b.local("new", []byte("new")), "/old"); err != nil {
		t.Fatal(err)
	}
	if attrs, _ := b.server.Files.Lstat("/old"); attrs.Permissions&0o777 != 0o604 ||
		string(b.remote("/old")) != "new" {
		t.Errorf("the file has permissions %o", attrs.Permissions)
	}
	target := b.local("target", []byte("old"))
	os.Chmod(target, 0o640)
	if _, err := b.job(download, "/old", target); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(target); runtime.GOOS != "windows" && info.Mode() != 0o640 || string(b.read("target")) != "new" {
		t.Errorf("the file has mode %v", info.Mode())
	}
}

func TestPreserve(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	source := b.local("source", []byte("data"))
	when := time.Unix(1234567890, 0)
	os.Chtimes(source, when, when)
	os.Chmod(source, 0o751)
	keep := func(j *copyJob) { j.Options.Preserve = true }
	if _, err := b.job(upload, source, "/there", keep); err != nil {
		t.Fatal(err)
	}
	if attrs, _ := b.server.Files.Lstat("/there"); attrs.MTime != uint32(when.Unix()) ||
		runtime.GOOS != "windows" && attrs.Permissions&0o777 != 0o751 {
		t.Errorf("up there are mode %o and time %d", attrs.Permissions, attrs.MTime)
	}
	if _, err := b.job(download, "/there", filepath.Join(b.dir, "back"),
		keep); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(filepath.Join(b.dir, "back")); !info.ModTime().Equal(when) ||
		runtime.GOOS != "windows" && info.Mode() != 0o751 {
		t.Errorf("back here are %v and %v", info.Mode(), info.ModTime())
	}
}

func TestLinksAreFollowedAndKept(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/real", []byte("old"))
	b.server.Files.Symlink("/real", "/link")
	source := b.local("source", []byte("new"))
	result, err := b.job(upload, source, "/link")
	if err != nil || string(b.remote("/real")) != "new" || result.Target != "/real" {
		t.Errorf("through a link: %+v, %v", result, err)
	}
	if attrs, _ := b.server.Files.Lstat("/link"); wire.FileMode(
		attrs.Permissions)&fs.ModeSymlink == 0 {
		t.Error("the remote link is gone")
	}
	b.local("here", []byte("old"))
	testenv.Symlink(t, "here", filepath.Join(b.dir, "alias"))
	if _, err := b.job(download, "/real", filepath.Join(b.dir, "alias")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(filepath.Join(b.dir, "alias")); err != nil ||
		info.Mode()&fs.ModeSymlink == 0 || string(b.read("here")) != "new" {
		t.Error("the local link is gone, or was not followed")
	}
	os.Symlink("nowhere", filepath.Join(b.dir, "dangling"))
	if _, err := b.job(download, "/real", filepath.Join(b.dir, "dangling")); err != nil ||
		string(b.read("nowhere")) != "new" {
		t.Errorf("through a dangling link: %v", err)
	}
}

func TestTargetsThatAreWrittenInPlace(t *testing.T) {
	if runtime.GOOS == "windows" {
		testenv.Unavailable(t, "only an open file tells how many names it has")
	}
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/source", []byte("new"))
	target := b.local("target", []byte("old"))
	if err := os.Link(target, filepath.Join(b.dir, "second")); err != nil {
		testenv.Unavailable(t, err)
	}
	result, err := b.job(download, "/source", target)
	if err != nil || !result.InPlace || string(b.read("second")) != "new" || len(b.notes()) != 1 {
		t.Errorf("a file of two names: %+v, %v, notes %q", result, err, b.notes())
	}
	if _, err := b.job(download, "/source", target,
		func(j *copyJob) { j.Options.Placement = transfer.PlaceAtomic }); err == nil {
		t.Error("a file of two names cannot be replaced atomically")
	}
	if result, err := b.job(download, "/source", os.DevNull); err != nil ||
		!result.InPlace {
		t.Errorf("to a device: %+v, %v", result, err)
	}
	result, err = b.job(upload, target, "/source",
		func(j *copyJob) { j.Options.Placement = transfer.PlaceDirect })
	if err != nil || !result.InPlace || len(b.notes()) != 0 {
		t.Errorf("asked for: %+v, %v, notes %q", result, err, b.notes())
	}
}

func TestDirectoryThatTakesNoTemporaryName(t *testing.T) {
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeOpen && strings.Contains(r.Path, ".usftp-") {
			return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
		}
		return nil
	}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/target", []byte("old"))
	source := b.local("source", []byte("new"))
	if result, err := b.job(upload, source, "/target"); err != nil || !result.InPlace ||
		len(b.notes()) != 1 {
		t.Errorf("%+v, %v, notes %q", result, err, b.notes())
	}
	_, err := b.job(upload, source, "/target",
		func(j *copyJob) { j.Options.Placement = transfer.PlaceAtomic })
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("atomic: %v", err)
	}
}

func TestServerWithoutPosixRename(t *testing.T) {
	b := newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/target", []byte("old"))
	source := b.local("source", []byte("new"))
	if _, err := b.job(upload, source, "/target"); err != nil ||
		string(b.remote("/target")) != "new" || len(b.temporaries()) > 0 {
		t.Errorf("%v, left %v", err, b.temporaries())
	}
}

func TestRenameThatFailsKeepsTheData(t *testing.T) {
	for reason, advised := range map[string]bool{"": true, "Disk quota exceeded": false} {
		b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{
			On: wire.TypeExtended, Extension: wire.ExtPosixRename,
			Do: sftptest.Refuse(wire.PermissionDenied, reason),
		}}}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/target", []byte("old"))
		result, err := b.job(upload, b.local("source", []byte("new")), "/target")
		if err == nil || result.LeftBehind == "" ||
			!strings.Contains(err.Error(), "all of the data is in far:"+result.LeftBehind) ||
			strings.Contains(err.Error(), "transfer.PlaceDirect") != advised {
			t.Fatalf("%+v, %v", result, err)
		}
		if string(b.remote(result.LeftBehind)) != "new" || string(b.remote("/target")) != "old" {
			t.Error("the data is not where the message says")
		}
	}
}

func TestStreams(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	data := random(700000)
	_, err := b.job(upload, "-", "/piped",
		func(j *copyJob) {
			j.Reader = io.MultiReader(bytes.NewReader(data[:5]),
				bytes.NewReader(data[5:]))
		})
	if err != nil || !bytes.Equal(b.remote("/piped"), data) {
		t.Errorf("from a reader: %v", err)
	}
	var out bytes.Buffer
	if _, err := b.job(download, "/piped", "-",
		func(j *copyJob) { j.Writer = &out }); err != nil || !bytes.Equal(out.Bytes(), data) {
		t.Errorf("to a writer: %v", err)
	}
	b.server.Files.Mkdir("/dir")
	if _, err := b.job(upload, "-", "/dir",
		func(j *copyJob) { j.Reader = &out }); !errors.Is(err, transfer.ErrIsDirectory) {
		t.Errorf("a reader has no name to give in a directory: %v", err)
	}
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/source", random(4<<20))
		limit := func(j *copyJob) { j.Options.RateLimit = 1 << 20 }
		for direction, run := range map[string]func() (transfer.Result, error){
			"down": func() (transfer.Result, error) {
				return b.job(download, "/source", filepath.Join(b.dir, "a"), limit)
			},
			"up": func() (transfer.Result, error) {
				return b.job(upload, filepath.Join(b.dir, "a"), "/b", limit)
			},
		} {
			if direction == "up" {
				b.local("a", random(4<<20))
			}
			result, err := run()
			if err != nil || result.Elapsed < 3900*time.Millisecond ||
				result.Elapsed > 4100*time.Millisecond {
				t.Errorf("%s: 4 MiB at 1 MiB/s took %v, %v", direction, result.Elapsed, err)
			}
		}
	})
}

// TestLimitedProgress: under a rate limit the byte count grows steadily, and never falls.
func TestLimitedProgress(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{5 << 10, 62500, 300 << 10, 4 << 20, 8 << 20} {
		for _, direction := range []way{upload, download} {
			for _, tree := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d bytes a second, %v, tree %t", rate, direction, tree), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						limitedProgress(t, rate, direction, tree)
					})
				})
			}
		}
	}
}

func limitedProgress(t *testing.T, rate int64, direction way, tree bool) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{
		ToServer: 20 * time.Millisecond, ToClient: 20 * time.Millisecond})
	if err := os.Mkdir(filepath.Join(b.dir, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"one": 8 * rate, "two": 4 * rate} {
		if direction == upload {
			b.local("tree/"+name, random(int(size)))
			continue
		}
		b.server.Files.WriteFile("/tree/"+name, random(int(size)))
		b.server.Files.SetModTime("/tree/"+name, time.Now().Add(-time.Hour))
	}
	var gaps progressGaps
	o := transfer.Options{RateLimit: rate, Events: gaps.event(t)}
	source, target := filepath.Join(b.dir, "tree"), "/copy"
	if direction == download {
		source, target = "/tree", filepath.Join(b.dir, "copy")
	}
	var took time.Duration
	var err error
	if tree {
		var s transfer.Summary
		job := treeJob{Host: b.host, Direction: direction, Options: o, Source: source,
			Target: target}
		s, err = job.Run(t.Context())
		took = s.Elapsed
	} else {
		var r transfer.Result
		job := copyJob{Host: b.host, Direction: direction, Options: o, Source: source + "/one",
			Target: target}
		r, err = job.Run(t.Context())
		took = r.Elapsed
	}
	if err != nil {
		t.Error(err)
	}
	gaps.check(t, took)
}

// TestSecondReadIsShown: while a file that has arrived is read once more, because it had just been
// written to or to verify it, progress says so, and how far that has come.
func TestSecondReadIsShown(t *testing.T) {
	const rate, size = 300 << 10, 3 << 20
	for _, test := range []struct {
		name      string
		direction way
		verify    bool
		phase     transfer.Phase
	}{{"written to as it is fetched", download, false, transfer.PhaseRereading},
		{"verified download", download, true, transfer.PhaseVerifying},
		{"verified upload", upload, true, transfer.PhaseVerifying}} {
		for _, tree := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tree %t", test.name, tree), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{
						ToServer: 20 * time.Millisecond, ToClient: 20 * time.Millisecond})
					source, target := filepath.Join(b.dir, "tree"), "/copy"
					if test.direction == upload {
						if err := os.Mkdir(source, 0o755); err != nil {
							t.Fatal(err)
						}
						b.local("tree/one", random(size))
					} else {
						source, target = "/tree", filepath.Join(b.dir, "copy")
						b.server.Files.Mkdir(source)
						b.server.Files.WriteFile(source+"/one", random(size))
						if name := source + "/one"; !test.verify {
							b.server.Files.SetModTime(name, time.Now())
							go func() { // while the copy waits for that second to end
								time.Sleep(1010 * time.Millisecond) // times are whole seconds
								b.server.Files.SetModTime(name, time.Now())
							}()
						}
					}
					if !tree {
						source += "/one"
					}
					// for how long nothing was said that is new, and the truth about what goes on
					var before transfer.Event
					var said, silent time.Duration
					finishing, checked := 0, int64(0)
					event := func(e transfer.Event) {
						if e.Kind != transfer.Progress {
							return
						}
						if e.Totals != nil {
							e.Finishing = e.Totals.Finishing == 1
						}
						if e.Finishing && e.Phase == test.phase {
							finishing++
						}
						if e.Finishing {
							if e.Bytes != size {
								t.Errorf("it finishes with %d bytes", e.Bytes)
							}
						}
						if e.Bytes != before.Bytes || e.Checked != before.Checked ||
							tree && e.Finishing {
							silent = max(silent, e.Elapsed-said)
							said = e.Elapsed
						}
						if e.Bytes < before.Bytes {
							t.Errorf("it fell from %d to %d", before.Bytes, e.Bytes)
						}
						checked = max(checked, e.Checked)
						before = e
					}
					job := treeJob{Host: b.host, Direction: test.direction, Source: source,
						Target: target,
						Options: transfer.Options{RateLimit: rate, Verify: test.verify,
							Events: event}}
					began := time.Now()
					if _, err := job.Run(t.Context()); err != nil {
						t.Fatal(err)
					}
					took := time.Since(began)
					if took < 15*time.Second {
						t.Fatalf("it was read once only, in %v", took)
					}
					if silent = max(silent, took-said); silent > 1500*time.Millisecond { // see settle
						t.Errorf("for %v there was no news", silent)
					}
					if finishing < 25 || !tree && checked < size*3/4 {
						t.Errorf("it was told %d times that it is checked, up to %d of %d bytes",
							finishing,
							checked, size)
					}
				})
			})
		}
	}
}

// progressGaps measures for how long Progress events showed the same number.
type progressGaps struct {
	before int64
	grew   time.Duration
	most   time.Duration
}

func (g *progressGaps) event(t *testing.T) func(transfer.Event) {
	return func(e transfer.Event) {
		if e.Kind != transfer.Progress {
			return
		}
		if e.Bytes < g.before {
			t.Errorf("it fell from %d to %d", g.before, e.Bytes)
		} else if e.Bytes > g.before {
			g.most = max(g.most, e.Elapsed-g.grew)
			g.grew = e.Elapsed
		}
		g.before = e.Bytes
	}
}

func (g *progressGaps) check(t *testing.T, took time.Duration) {
	t.Helper()
	if g.most > time.Second || took-g.grew > time.Second {
		t.Errorf("it stood still for %v, and for %v at the end", g.most, took-g.grew)
	}
}

// Requests of a small file. Up: a look at the target, OPEN, WRITE, FSETSTAT if a file is replaced,
// CLOSE, RENAME. Down: OPEN with STAT at the same time, READ, and FSTAT to see that the file is
// unchanged. Closing a file that was read costs nothing.
func TestRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 100 * time.Millisecond
		b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{ToServer: trip / 2,
			ToClient: trip / 2})
		source := b.local("source", random(1<<20))
		for name, test := range map[string]struct {
			direction      way
			source, target string
			trips          time.Duration
		}{
			"up":   {upload, source, "/new", 5},
			"down": {download, "/source", filepath.Join(b.dir, "new"), 3},
		} {
			b.server.Files.WriteFile("/source", random(1<<20))
			result, err := b.job(test.direction, test.source, test.target)
			if err != nil || result.Elapsed != test.trips*trip {
				t.Errorf("%s took %v, want %d round trips of %v: %v", name, result.Elapsed,
					test.trips, trip, err)
			}
		}
	})
}
