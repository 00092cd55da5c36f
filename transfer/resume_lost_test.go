package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// A resumption is a copy of a file that was interrupted half way. The next run ends, or loses its
// connection, at one of its first requests.
type resumption struct {
	*bench
	direction      way
	synced         bool // by Sync, which always resumes
	data           []byte
	source, target string

	mu   sync.Mutex // the script runs on the goroutine of each connection
	end  func() []sftptest.Action
	seen int64
	last sftptest.Request // the one at which it ended
}

// ends sets what happens at the chosen request; nil for nothing.
func (r *resumption) ends(end func() []sftptest.Action) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = end
}

func newResumption(t *testing.T, direction way, synced, hashes bool, at int64) *resumption {
	r := &resumption{direction: direction, synced: synced, data: random(5 << 20)}
	script := sftptest.Script{Intercept: func(q sftptest.Request) []sftptest.Action {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.end == nil || q.Type == wire.TypeInit {
			return nil
		}
		if r.seen++; r.seen != at {
			return nil
		}
		r.last = q
		return r.end()
	}}
	if hashes {
		script.Extensions = append(sftptest.OpenSSHExtensions(),
			wire.ExtensionPair{Name: wire.ExtCheckFileHandle, Data: "1"})
	}
	r.bench = newBench(t, script, r.link())
	if err := os.MkdirAll(filepath.Join(r.dir, "source"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.server.Files.Mkdir("/source")
	if direction == download {
		r.server.Files.WriteFile("/source/file", r.data)
		r.source, r.target = "/source/file", filepath.Join(r.dir, "target")
	} else {
		r.source, r.target = r.local("source/file", r.data), "/target"
	}
	return r
}

func (r *resumption) link() sftptest.LinkConfig {
	return sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
		RateBytesPerSec: 2 << 20}
}

// run copies over a new connection. It returns how many bytes it did not have to copy.
func (r *resumption) run(ctx context.Context, retries int) (resumed int64, err error) {
	r.reconnect(r.link())
	if retries > 0 {
		r.host.Redial = func(context.Context) (pool.Host, error) {
			r.reconnect(r.link())
			return r.host, nil
		}
	}
	o := transfer.Options{Journal: filepath.Join(r.dir, "journal"), Resume: true}
	o.Retries = retries
	if !r.synced {
		result, err := r.jobContext(ctx, r.direction, r.source, r.target,
			func(j *copyJob) { j.Options = o })
		return result.Resumed, err
	}
	source := strings.TrimRight(strings.TrimSuffix(r.source, "file"), `/\`)
	dst, src := r.direction.endpoints(r.host, r.host, source, r.target, nil, nil)
	summary, err := transfer.Sync(ctx, dst, src,
		transfer.SyncOptions{TreeOptions: transfer.TreeOptions{Options: o}, NoLock: true})
	return summary.Resumed, err
}

func (r *resumption) check() {
	r.t.Helper()
	name := "target"
	if r.synced {
		name = "target/file"
	}
	there, err := r.server.Files.ReadFile("/" + name)
	if r.direction == download {
		there, err = os.ReadFile(filepath.Join(r.dir, name))
	}
	if err != nil || !bytes.Equal(there, r.data) {
		r.t.Errorf("the target differs: %d bytes, %v", len(there), err)
	}
	left := r.temporaries()
	in, _ := filepath.Glob(filepath.Join(r.dir, "target", ".*"))
	if left = append(left, in...); len(left) > 0 {
		r.t.Errorf("left behind: %q", left)
	}
	if marks, _ := filepath.Glob(filepath.Join(r.dir, "journal", "*.file.json")); len(marks) > 0 {
		r.t.Errorf("left in the journal: %q", marks)
	}
}

// A run that ends while it proves the beginning of what an earlier one left gives nothing up: it
// goes on from there over its next connection, and if there is none, the next run does. Nothing is
// left behind.
func TestResumeEndsWhileItProves(t *testing.T) {
	for _, test := range []struct {
		direction      way
		synced, hashes bool
	}{
		{direction: upload}, {direction: upload, hashes: true}, {direction: upload, synced: true},
		{direction: download}, {direction: download, hashes: true},
		{direction: download, synced: true, hashes: true},
	} {
		for _, ends := range []string{"lost", "cancelled", "lost, and retried"} {
			name := fmt.Sprintf("%v %s synced %v hashes %v", test.direction, ends, test.synced,
				test.hashes)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for n, moving := int64(1), false; !moving && n < 50 && !t.Failed(); n++ {
					synctest.Test(t, func(t *testing.T) {
						r := newResumption(t, test.direction, test.synced, test.hashes, n)
						moving = r.endAt(ends)
					})
				}
			})
		}
	}
}

// endAt interrupts a first run, ends a second one, and makes a third. It reports whether the second
// had begun to move data.
func (r *resumption) endAt(how string) (moving bool) {
	t := r.t
	ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Second/2)
	defer cancel()
	if _, err := r.run(ctx, 0); err == nil {
		t.Fatal("the first run was not interrupted")
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	retries := 0
	r.ends(func() []sftptest.Action { return []sftptest.Action{sftptest.Hangup()} })
	switch how {
	case "cancelled":
		r.ends(func() []sftptest.Action { cancel(); return nil })
	case "lost, and retried":
		retries = 1
	}
	resumed, err := r.run(ctx, retries)
	r.ends(nil)
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	moving = last.Type == wire.TypeWrite || last.Type == wire.TypeRead && r.direction == download
	at := last.String()
	if retries > 0 {
		if err != nil || resumed == 0 {
			t.Errorf("lost at %s: %d bytes were kept, %v", at, resumed, err)
		}
		r.check()
		return moving
	}
	if err != nil { // otherwise it ended at its last request
		if resumed, err = r.run(t.Context(), 0); err != nil || resumed == 0 {
			t.Errorf("%s at %s: the third run kept %d bytes, %v", how, at, resumed, err)
		}
	}
	r.check()
	return moving
}

// TestOwnLeftoverIsNoEarlierRuns: what an attempt left before its connection was lost is not told
// as an earlier run's when this run starts over.
func TestOwnLeftoverIsNoEarlierRuns(t *testing.T) {
	for _, direction := range []way{upload, download} {
		for _, resume := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, resume %v", direction, resume), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					link := sftptest.LinkConfig{ToServer: time.Millisecond,
						ToClient: time.Millisecond, RateBytesPerSec: 8 << 20}
					b := newBench(t, sftptest.Script{}, link)
					end := b.reconnect(link)
					data, fresh := random(20<<20), random(21<<20)
					source, target := b.local("source", data), "/target"
					b.server.Files.WriteFile("/source", data)
					if direction == download {
						source, target = "/source", filepath.Join(b.dir, "target")
					}
					time.AfterFunc(2*time.Second, func() { end.Cut(nil) })
					b.host.Redial = func(context.Context) (pool.Host, error) {
						b.reconnect(link)
						b.local("source", fresh)
						b.server.Files.WriteFile("/source", fresh)
						return b.host, nil
					}
					r, err := b.job(direction, source, target, func(j *copyJob) {
						j.Options.Retries, j.Options.Resume = 5, resume
						j.Options.Journal = filepath.Join(b.dir, "journal")
					})
					if err != nil || r.Resumed != 0 || !bytes.Equal(b.arrived(direction), fresh) {
						t.Errorf("%+v, %v", r, err)
					}
					if left := b.temporaries(); len(left) > 0 {
						t.Errorf("left behind: %q", left)
					}
					if notes := b.notes(); len(notes) != 1 ||
						!strings.Contains(notes[0], "before the connection was lost: the source") {
						t.Errorf("the notes are %q", notes)
					}
				})
			})
		}
	}
}

// TestRenameNotAnswered: a copy whose connection is lost while it gets its name ends as any other:
// what an earlier run left is removed, and nothing that was found out is forgotten.
func TestRenameNotAnswered(t *testing.T) {
	for name, lose := range map[string]sftptest.Action{
		"carried out": sftptest.Truncate(3), "not carried out": sftptest.Hangup()} {
		for _, resume := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, resume %v", name, resume), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					link := sftptest.LinkConfig{ToServer: time.Millisecond,
						ToClient: time.Millisecond, RateBytesPerSec: 8 << 20}
					b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeExtended,
						Extension: wire.ExtPosixRename, Times: 1, Do: lose}}}, link)
					data := random(20 << 20)
					source := b.local("source", data)
					if err := os.Chmod(source, 0o755|os.ModeSetuid); err != nil {
						t.Fatal(err)
					}
					run := func(ctx context.Context, resume bool) (transfer.Result, error) {
						b.redials(link, nil)
						return b.jobContext(ctx, upload, source, "/target", func(j *copyJob) {
							j.Options.Retries, j.Options.Resume = 5, resume
							j.Options.Preserve = true
							j.Options.Journal = filepath.Join(b.dir, "journal")
						})
					}
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					if r, err := run(ctx, false); err == nil || r.LeftBehind == "" {
						t.Fatalf("%+v, %v", r, err)
					}
					r, err := run(t.Context(), resume)
					if err != nil || r.Bytes != int64(len(data)) || resume != (r.Resumed > 0) ||
						!bytes.Equal(b.remote("/target"), data) {
						t.Errorf("%+v, %v", r, err)
					}
					if len(b.kinds(transfer.Retried, "")) == 0 {
						t.Error("no connection was lost")
					}
					if left := b.temporaries(); len(left) > 0 {
						t.Errorf("left behind: %q", left)
					}
					if notes := strings.Join(b.notes(), "; "); !strings.Contains(notes, "setuid") &&
						runtime.GOOS != "windows" { // where no file has that bit
						t.Errorf("the notes are %q", notes)
					}
				})
			})
		}
	}
}
