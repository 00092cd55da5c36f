package transfer_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// reconnect gives the bench a new connection to its server.
func (b *bench) reconnect(link sftptest.LinkConfig) *sftptest.End {
	b.t.Helper()
	stream := b.server.Dial(link)
	b.host.Client = connect(b.t, stream).Client
	return stream
}

// A copy that was interrupted, or lost its connection, is continued if and only if the source is
// unchanged.
func TestResume(t *testing.T) {
	const size = 40 << 20
	data := random(size)
	uncut := func(answer wire.Code) sftptest.Script { // files are not cut, which a host may not say
		return sftptest.Script{Faults: []sftptest.Fault{
			{On: wire.TypeFsetstat, Do: sftptest.Refuse(answer, "")}}}
	}
	// what had arrived beyond the part that is known to be good, with a hole
	beyond := func(b *bench, _, left string) {
		if have, err := b.server.Files.ReadFile(left); err == nil {
			more := slices.Clone(data[:len(have)+2<<20])
			clear(more[len(have) : len(have)+1<<20])
			b.server.Files.WriteFile(left, more)
		}
	}
	for name, test := range map[string]struct {
		script  sftptest.Script
		lose    bool // the connection ends instead of the context
		between func(b *bench, local, left string)
		sends   int64 // the most the second run may send
		again   bool  // everything is sent again
	}{
		"interrupted":     {sends: size / 2},
		"connection lost": {lose: true, sends: size * 7 / 8},
		"no permissions": {sends: size / 2,
			script: sftptest.Script{HideAttrs: wire.AttrPermissions}},
		"no fsync": {sends: size * 7 / 8,
			script: sftptest.Script{Extensions: []wire.ExtensionPair{{Name: wire.ExtPosixRename,
				Data: "1"}}}},
		"not cut":                  {sends: size * 7 / 8, script: uncut(wire.Failure), between: beyond},
		"not cut, without a word":  {sends: size * 7 / 8, script: uncut(wire.OK), between: beyond},
		"not cut, connection lost": {sends: size * 7 / 8, script: uncut(wire.Failure), between: beyond, lose: true},
		"another source": {again: true, between: func(b *bench, local, _ string) {
			os.Chtimes(local, oldTime, oldTime)
			b.server.Files.SetModTime("/source", oldTime)
		}},
		"what is left has changed": {again: true,
			between: func(b *bench, _, left string) { b.spoil(left) }},
		"what is left is gone": {again: true, between: func(b *bench, _, left string) {
			b.server.Files.Remove(left)
			os.Remove(left)
		}},
	} {
		for _, direction := range []way{upload, download} {
			t.Run(name+" "+direction.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					link := sftptest.LinkConfig{ToServer: time.Millisecond,
						ToClient: time.Millisecond, RateBytesPerSec: 8 << 20}
					b := newBench(t, test.script, link)
					end := b.reconnect(link)
					local, remote := b.local("source", data), "/source"
					b.server.Files.WriteFile(remote, data)
					source, target := local, "/target"
					if direction == download {
						source, target = remote, filepath.Join(b.dir, "target")
					}
					journal := func(j *copyJob) {
						j.Options.Journal,
							j.Options.Resume = filepath.Join(b.dir, "journal"), true
					}
					ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
					defer cancel()
					if test.lose {
						time.AfterFunc(4*time.Second, func() { end.Cut(nil) })
						ctx = t.Context()
					}
					first, err := b.jobContext(ctx, direction, source, target, journal)
					if err == nil || first.LeftBehind == "" || first.Bytes == 0 {
						t.Fatalf("%+v, %v", first, err)
					}
					if !strings.Contains(err.Error(), "transfer.Options.Resume continues from there") {
						t.Errorf("it does not say how to continue: %v", err)
					}
					if test.between != nil {
						test.between(b, local, first.LeftBehind)
					}
					b.reconnect(link)
					began := time.Now()
					second, err := b.job(direction, source, target, journal)
					if err != nil {
						t.Fatal(err)
					}
					if test.again != (second.Resumed == 0) {
						t.Errorf("%+v", second)
					}
					for _, e := range b.events {
						if (e.Kind == transfer.Progress || e.Kind == transfer.Done) &&
							e.Resumed != second.Resumed {
							t.Errorf("%s tells of %d bytes that were there, of %d", e.Kind,
								e.Resumed, second.Resumed)
						}
					}
					if moved := int64(time.Since(began).Seconds() * float64(
						link.RateBytesPerSec)); !test.again && moved > test.sends {
						t.Errorf("about %d bytes travelled again, of %d", moved, size)
					}
					if !bytes.Equal(b.arrived(direction), data) {
						t.Error("the target differs")
					}
					if left := b.temporaries(); len(left) > 0 && !test.again {
						t.Errorf("left behind: %q", left)
					}
					if marks, _ := os.ReadDir(filepath.Join(b.dir, "journal")); len(marks) != 0 {
						t.Errorf("%d marks are left", len(marks))
					}
				})
			})
		}
	}
}

// spoil changes the end of a file, here or on the host.
func (b *bench) spoil(name string) {
	if data, err := os.ReadFile(name); err == nil {
		os.WriteFile(name, data[:len(data)/2], 0o600)
		return
	}
	data := b.remote(name)
	data[len(data)-5]++
	b.server.Files.WriteFile(name, data)
}

// Resuming a tree counts files with equal size and time as copied.
func TestResumeTree(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	source := b.sample("source")
	resume := func(tree *treeJob) { tree.Options.Resume = true }
	for direction, way := range map[way][2]string{upload: {source, "/"}} {
		if _, err := b.tree(direction, way[0], way[1]); err != nil {
			t.Fatal(err)
		}
		b.server.Files.WriteFile("/source/one", []byte("another"))
		b.server.Files.Remove("/source/zero")
		s, err := b.tree(direction, way[0], way[1], resume)
		if err != nil || s.Files != 2 || s.Kept != 7 {
			t.Errorf("%+v, %v", s, err)
		}
	}
	out := filepath.Join(b.dir, "out")
	if _, err := b.tree(download, "/source", out); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(out, "one"))
	if s, err := b.tree(download, "/source/.", out, resume); err != nil || s.Files != 1 ||
		s.Kept != 8 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Two runs of the same copy at once: each has its own temporary file, and only one has the journal.
func TestTwoRuns(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download} {
		synctest.Test(t, func(t *testing.T) {
			const size = 40 << 20
			link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
				RateBytesPerSec: 8 << 20}
			b := newBench(t, sftptest.Script{}, link)
			data := random(size)
			source, target := b.local("source", data), "/target"
			if direction == download {
				b.server.Files.WriteFile("/source", data)
				source, target = "/source", filepath.Join(b.dir, "target")
			}
			journal := filepath.Join(b.dir, "journal")
			type outcome struct {
				result transfer.Result
				err    error
				notes  []string
			}
			begin := func() chan outcome {
				b.reconnect(link)
				var o outcome
				j := copyJob{Host: b.host, Direction: direction, Source: source,
					Target: target}
				j.Options.Journal, j.Options.Resume = journal, true
				j.Options.Events = func(e transfer.Event) {
					if e.Kind == transfer.Note || e.Kind == transfer.Warning {
						o.notes = append(o.notes, e.Message)
					}
				}
				ended := make(chan outcome, 1)
				go func() {
					o.result, o.err = j.Run(t.Context())
					ended <- o
				}()
				return ended
			}
			first := begin()
			time.Sleep(3 * time.Second)
			if marks, _ := os.ReadDir(journal); len(marks) != 1 {
				t.Errorf("%d marks while it is under way", len(marks))
			} else if mark, err := os.ReadFile(filepath.Join(journal,
				marks[0].Name())); err != nil ||
				!bytes.Contains(mark, []byte(`"bytes":1`)) &&
					!bytes.Contains(mark, []byte(`"bytes":2`)) {
				t.Errorf("the mark is %s, %v", mark, err)
			}
			second := begin()
			time.Sleep(time.Second) // on the fake clock; the first needs two more
			if left := b.temporaries(); len(left) != 2 {
				t.Errorf("temporary files: %q", left)
			}
			for i, ended := range []chan outcome{first, second} {
				o := <-ended
				if o.err != nil || o.result.Bytes != size || o.result.Resumed != 0 {
					t.Errorf("run %d: %+v, %v", i, o.result, o.err)
				}
				if said := strings.Contains(strings.Join(o.notes, "\n"),
					"another run is making the same copy"); said != (i == 1) {
					t.Errorf("run %d: the notes are %q", i, o.notes)
				}
			}
			if !bytes.Equal(b.arrived(direction), data) {
				t.Error("the target differs")
			}
			if marks, _ := os.ReadDir(journal); len(marks) != 0 || len(b.temporaries()) != 0 {
				t.Errorf("left: %v, %q", marks, b.temporaries())
			}
		})
	}
}

// TestResumeAfterAnEarlyKill: what a run left that was killed at once is removed by the next one,
// although there is nothing to continue.
func TestResumeAfterAnEarlyKill(t *testing.T) {
	for what, test := range map[string]struct {
		direction way
		hidden    uint32
	}{
		"upload": {upload, 0}, "download": {download, 0},
		"of what cannot be continued": {download, wire.AttrACModTime},
	} {
		direction := test.direction
		synctest.Test(t, func(t *testing.T) {
			link := sftptest.LinkConfig{RateBytesPerSec: 8 << 20}
			b := newBench(t, sftptest.Script{HideAttrs: test.hidden}, link)
			data := random(10 << 20)
			b.server.Files.WriteFile("/source", data)
			source, target := "/source", filepath.Join(b.dir, "target")
			if direction == upload {
				source, target = b.local("source", data), "/target"
			}
			journal := func(j *copyJob) {
				j.Options.Journal,
					j.Options.Resume = filepath.Join(b.dir, "journal"), true
			}
			var mark []byte
			var left, name string
			ctx, cancel := context.WithCancel(t.Context())
			b.jobContext(ctx, direction, source, target, journal, func(j *copyJob) {
				j.Options.Events = func(e transfer.Event) {
					marks, _ := filepath.Glob(filepath.Join(b.dir, "journal", "*"))
					if e.Kind == transfer.Progress && len(marks) == 1 && mark == nil {
						name, left = marks[0], b.temporaries()[0]
						mark, _ = os.ReadFile(name)
						cancel()
					}
				}
			})
			for _, left := range b.temporaries() {
				b.server.Files.Remove(left)
				os.Remove(filepath.Join(b.dir, left))
			}
			if len(mark) == 0 {
				t.Fatal("nothing was noted before the first second")
			}
			os.WriteFile(name, mark, 0o600)
			if direction == upload {
				b.server.Files.WriteFile(left, data[:100])
			} else {
				b.local(left, data[:100])
			}
			b.reconnect(link)
			if result, err := b.job(direction, source, target, journal); err != nil ||
				result.Resumed != 0 || !bytes.Equal(b.arrived(direction), data) {
				t.Fatalf("%s: %+v, %v", what, result, err)
			}
			if left := b.temporaries(); len(left) > 0 {
				t.Errorf("%s: left behind: %q", what, left)
			}
			if marks, _ := os.ReadDir(filepath.Join(b.dir, "journal")); len(marks) != 0 {
				t.Errorf("%s: %d marks are left", what, len(marks))
			}
		})
	}
}

// A run that starts over after an interruption says so, and removes what was left once the copy is
// in place, not before.
func TestStartOver(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download} {
		t.Run(direction.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 40 << 20
				link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
					RateBytesPerSec: 8 << 20}
				b := newBench(t, sftptest.Script{}, link)
				b.reconnect(link)
				data := random(size)
				source, target := b.local("source", data), "/target"
				b.server.Files.WriteFile("/source", data)
				if direction == download {
					source, target = "/source", filepath.Join(b.dir, "target")
				}
				journal := func(j *copyJob) {
					j.Options.Journal = filepath.Join(b.dir,
						"journal")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				first, err := b.jobContext(ctx, direction, source, target, journal)
				if err == nil || first.LeftBehind == "" || len(b.temporaries()) != 1 {
					t.Fatalf("%+v, %v, %q", first, err, b.temporaries())
				}
				b.reconnect(link)
				second, err := b.job(direction, source, target, journal, func(j *copyJob) {
					told := j.Options.Events
					j.Options.Events = func(e transfer.Event) {
						if e.Kind == transfer.Progress && len(b.temporaries()) != 2 {
							t.Errorf("while it is under way there are %q", b.temporaries())
						}
						told(e)
					}
				})
				if err != nil || second.Resumed != 0 || !bytes.Equal(b.arrived(direction), data) {
					t.Fatalf("%+v, %v", second, err)
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
				if notes := b.notes(); len(notes) != 1 ||
					!strings.Contains(notes[0],
						"copying it again; the "+strconv.FormatInt(first.Bytes, 10)+" bytes") {
					t.Errorf("the notes are %q", notes)
				}
			})
		})
	}
}

// TestResumedFileIsForItsReaders: what an earlier run wrote for its owner alone, since it was to get
// the permissions of an old file or of its source, does not stay so where this run sets none.
func TestResumedFileIsForItsReaders(t *testing.T) {
	for _, direction := range []way{upload, download} {
		for name, preserve := range map[string]bool{"replaced": false, "preserved": true} {
			t.Run(name+" "+direction.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					link := sftptest.LinkConfig{ToServer: time.Millisecond,
						ToClient: time.Millisecond, RateBytesPerSec: 8 << 20}
					b := newBench(t, sftptest.Script{}, link)
					data := random(20 << 20)
					source, target := b.local("source", data), "/target"
					b.server.Files.WriteFile("/source", data)
					if direction == download {
						source, target = "/source", filepath.Join(b.dir, "target")
					}
					modeOf := func(name string) fs.FileMode {
						info, err := os.Stat(name)
						if direction == upload {
							info, err = b.host.Client.Stat(name)
						}
						if err != nil {
							t.Fatal(err)
						}
						return info.Mode()
					}
					remove := func() {
						b.server.Files.Remove("/target")
						os.Remove(filepath.Join(b.dir, "target"))
					}
					if _, err := b.job(direction, source, target); err != nil {
						t.Fatal(err)
					}
					want := modeOf(target)
					if preserve {
						remove()
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					journal := func(j *copyJob) {
						j.Options.Journal, j.Options.Resume = filepath.Join(b.dir, "journal"), true
						j.Options.Preserve = preserve && ctx.Err() == nil
					}
					if r, err := b.jobContext(ctx, direction, source, target, journal); err == nil ||
						r.LeftBehind == "" {
						t.Fatalf("%+v, %v", r, err)
					}
					remove()
					b.reconnect(link)
					if _, err := b.job(direction, source, target, journal); err != nil {
						t.Fatal(err)
					}
					if have := modeOf(target); have != want {
						t.Errorf("it is %v, and would be %v without the interruption", have, want)
					}
				})
			})
		}
	}
}
