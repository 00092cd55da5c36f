package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestServerThatTouchesWhatIsRead: a server that shows the current time for a file being read, as
// rclone's does with a cache, has not changed the file. Real changes are still detected.
func TestServerThatTouchesWhatIsRead(t *testing.T) {
	large := random(3 << 20)
	for name, test := range map[string]struct {
		extensions []wire.ExtensionPair
		rewrite    bool
	}{
		"read again": {},
		"hashed": {extensions: []wire.ExtensionPair{{Name: wire.ExtCheckFileHandle,
			Data: "sha256"}}},
		"written to, read again": {rewrite: true},
		"written to, hashed": {extensions: []wire.ExtensionPair{{Name: wire.ExtCheckFileHandle,
			Data: "sha256"}}, rewrite: true},
	} {
		t.Run(name, func(t *testing.T) {
			var b *bench
			var mu sync.Mutex
			clock := time.Now() // of the server; each READ advances it by a second
			var written atomic.Bool
			script := sftptest.Script{Extensions: test.extensions,
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type != wire.TypeRead {
						return nil
					}
					if test.rewrite && path.Base(r.Path) == "large" && r.Offset >= 2<<20 &&
						!written.Swap(true) {
						b.server.Files.Resize(r.Path, 1<<20) // the rest of it is zeros
						b.server.Files.Resize(r.Path, int64(len(large)))
					}
					mu.Lock()
					defer mu.Unlock()
					clock = clock.Add(time.Second)
					b.server.Files.SetModTime(r.Path, clock)
					return nil
				}}
			b = newBench(t, script, sftptest.LinkConfig{})
			b.server.Files.Mkdir("/tree")
			files := map[string][]byte{"large": large, "small": random(3000),
				"medium": random(300 << 10)}
			for name, data := range files {
				b.server.Files.WriteFile("/tree/"+name, data)
				b.server.Files.SetModTime("/tree/"+name, oldTime)
			}
			check := func(name string, err error) {
				t.Helper()
				switch changed := test.rewrite && strings.HasSuffix(name, "large"); {
				case changed && !errors.Is(err, transfer.ErrSourceChanged):
					t.Errorf("%s was written to while it was copied: %v", name, err)
				case !changed && (err != nil || !bytes.Equal(b.read(name), files[path.Base(name)])):
					t.Errorf("%s: %v", name, err)
				}
			}
			_, err := b.job(download, "/tree/large", filepath.Join(b.dir, "large"))
			check("large", err)
			if notes := b.notes(); len(notes) > 1 || !test.rewrite && len(notes) != 1 {
				t.Errorf("it said %q", notes)
			}
			b.host.Client.Stat("/") // comes after the READs that nobody waited for
			for name, data := range files {
				b.server.Files.WriteFile("/tree/"+name, data)
				b.server.Files.SetModTime("/tree/"+name, oldTime)
			}
			written.Store(false)
			var failed []string
			tree := treeJob{Host: b.host, Direction: download, Source: "/tree",
				Target: filepath.Join(b.dir, "copy")}
			tree.Options.Events = func(e transfer.Event) {
				b.events = append(b.events, e)
				if e.Kind == transfer.Failed {
					failed = append(failed, path.Base(e.Source))
				}
			}
			b.events = nil
			_, err = tree.Run(t.Context())
			check("copy/large", err)
			check("copy/medium", nil)
			check("copy/small", nil)
			if test.rewrite != (len(failed) == 1) {
				t.Errorf("failed: %q, %v", failed, err)
			}
			if notes := b.notes(); len(notes) > 1 {
				t.Errorf("it said %q", notes)
			}
		})
	}
}

// TestTouchedSourceOfAStream is the same for data that does not stay on this machine: a relay
// copies the first file once more and hashes it on the way; a stream that cannot be repeated is
// hashed if the server's name suggests that this may be needed.
func TestTouchedSourceOfAStream(t *testing.T) {
	data := random(3 << 20)
	for name, test := range map[string]struct {
		version string
		relay   bool
		rewrite bool
		fails   bool
	}{
		"relay":              {relay: true},
		"relay, written to":  {relay: true, rewrite: true, fails: true},
		"relay of rclone's":  {relay: true, version: "SSH-2.0-rclone/v1.60.1-DEV"},
		"stream":             {fails: true},
		"stream of rclone's": {version: "SSH-2.0-rclone/v1.60.1-DEV"},
		"rclone's, written to": {version: "SSH-2.0-rclone/v1.60.1-DEV", rewrite: true,
			fails: true},
		"rclone's, by the relay": {version: "SSH-2.0-rclone/v1.60.1-DEV", relay: true,
			rewrite: true, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			var b *bench
			var mu sync.Mutex
			clock := time.Now()
			reads := 0
			b = newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type != wire.TypeRead {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				if reads++; test.rewrite && r.Offset >= 2<<20 && r.Offset < 3<<20 {
					b.server.Files.Resize(r.Path, 1<<20)
					b.server.Files.WriteFile(r.Path,
						append(data[:1<<20:1<<20], random(2<<20 + reads)[reads:]...))
				}
				clock = clock.Add(time.Second)
				b.server.Files.SetModTime(r.Path, clock)
				return nil
			}}, sftptest.LinkConfig{}, usftp.WithServerVersion(test.version))
			b.server.Files.WriteFile("/source", data)
			b.server.Files.SetModTime("/source", oldTime)
			var got []byte
			var err error
			if test.relay {
				to := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
				_, err = to.job(relay, "/source", "/target", func(j *copyJob) { j.From = b.host })
				got, _ = to.server.Files.ReadFile("/target")
				if left := to.temporaries(); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
			} else {
				var out bytes.Buffer
				_, err = b.job(download, "/source", "-", func(j *copyJob) { j.Writer = &out })
				got = out.Bytes()
			}
			switch {
			case test.fails && !errors.Is(err, transfer.ErrSourceChanged):
				t.Error(err)
			case !test.fails && (err != nil || !bytes.Equal(got, data)):
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

// TestTouchedSourceOverSeveralConnections: where the time of a source begins to change while
// further handles read it, too, what has arrived is compared with the contents. A source that is
// really written to is still found.
func TestTouchedSourceOverSeveralConnections(t *testing.T) {
	t.Parallel()
	const size = 48 << 20
	data := random(size)
	for _, direction := range []way{download, relay} {
		for _, rewrite := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, written to: %v", direction, rewrite), func(t *testing.T) {
				var server *sftptest.Scripted
				var mu sync.Mutex
				var clock time.Time
				written := false
				touch := func(r sftptest.Request) []sftptest.Action {
					if r.Type != wire.TypeRead ||
						r.Offset < 40<<20 { // all handles have joined by then
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					if rewrite && !written {
						written = true
						server.Files.WriteFile(r.Path, random(size + 1)[1:])
					}
					clock = clock.Add(time.Second)
					server.Files.SetModTime(r.Path, clock)
					return nil
				}
				striped(t, sftptest.Script{Intercept: touch}, func(b *bench) {
					server, clock = b.server, time.Now()
					server.Files.WriteFile("/source", data)
					time.Sleep(time.Hour) // on a fake clock
					var result transfer.Result
					var err error
					var got []byte
					var notes []string
					if direction == download {
						result, err = b.job(direction, "/source", filepath.Join(b.dir, "target"))
						got, _ = os.ReadFile(filepath.Join(b.dir, "target"))
						notes = b.notes()
					} else {
						to := newBench(b.t, sftptest.Script{}, sftptest.LinkConfig{})
						result, err = to.job(direction, "/source", "/target",
							func(j *copyJob) { j.From = b.host })
						got, _ = to.server.Files.ReadFile("/target")
						notes = to.notes()
					}
					switch {
					case rewrite && !errors.Is(err, transfer.ErrSourceChanged):
						b.t.Errorf("it was written to: %v", err)
					case !rewrite && (err != nil || !bytes.Equal(got, data) || len(notes) != 1):
						b.t.Errorf("%+v, %v, %q", result, err, notes)
					case !rewrite && direction == download && result.Stripes < 2:
						b.t.Errorf("%d further handles have taken part", result.Stripes)
					}
				})
			})
		}
	}
}
