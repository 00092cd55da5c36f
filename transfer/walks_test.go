package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"testing"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// TestWalks copies one file in each of the ways that docs/architecture.md follows through the code.
// .ci/walks runs them one by one, and counts the engine's files that each passes through. Trees are
// copied with so many more files, too: what runs as many times more is what each file passes through.
func TestWalks(t *testing.T) {
	const more = 40
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	data := random(10_000)
	// source makes a local directory with files.
	source := func(b *bench, files int) string {
		dir := filepath.Join(b.dir, "source")
		ok(os.Mkdir(dir, 0o755))
		for i := range files {
			name := filepath.Join(dir, fmt.Sprint("file", i))
			ok(os.WriteFile(name, data, 0o644))
			ok(os.Chtimes(name, old, old))
		}
		return dir
	}
	stored := func(b *bench, name string) {
		t.Helper()
		if !bytes.Equal(b.remote(name), data) {
			t.Errorf("%s differs", name)
		}
	}
	for name, walk := range map[string]func(b *bench, files int){
		"small-file-of-cp": func(b *bench, files int) {
			_, err := b.tree(upload, source(b, files), "/copy")
			ok(err)
			stored(b, "/copy/file0")
		},
		"equal-file-of-sync": func(b *bench, files int) {
			src := source(b, files)
			for i := range files {
				name := fmt.Sprint("/copy/file", i)
				b.server.Files.WriteFile(name, data)
				ok(b.host.Client.Chtimes(name, old, old))
				ok(b.host.Client.Chmod(name, 0o644))
			}
			j := syncJob{direction: upload, far: b.host, src: src, dst: "/copy"}
			if s := j.must(t); s.Kept != int64(files) || s.Files != 0 {
				t.Errorf("%+v", s.Totals)
			}
		},
		"changed-file-of-sync": func(b *bench, files int) {
			src := source(b, files)
			for i := range files {
				b.server.Files.WriteFile(fmt.Sprint("/copy/file", i), []byte("old"))
			}
			j := syncJob{direction: upload, far: b.host, src: src, dst: "/copy"}
			if s := j.must(t); s.Files != int64(files) {
				t.Errorf("%+v", s.Totals)
			}
			stored(b, "/copy/file0")
		},
	} {
		for _, files := range []int{1, 1 + more} {
			t.Run(fmt.Sprint(name, "-", files), func(t *testing.T) {
				walk(newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{}), files)
			})
		}
	}
	for name, walk := range map[string]func(b *bench){
		"download": func(b *bench) {
			b.server.Files.WriteFile("/source", data)
			ok(b.host.Client.Chtimes("/source", old, old))
			_, err := b.job(download, "/source", filepath.Join(b.dir, "target"))
			ok(err)
			if !bytes.Equal(b.arrived(download), data) {
				t.Error("the copy differs")
			}
		},
		"host-to-host": func(b *bench) {
			b.server.Files.WriteFile("/source", data)
			ok(b.host.Client.Chtimes("/source", old, old))
			other := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			_, err := b.job(relay, "/source", "/target",
				func(j *copyJob) { j.Host, j.From = other.host, b.host })
			ok(err)
			stored(other, "/target")
		},
		"check": func(b *bench) {
			b.server.Files.WriteFile("/copy/file", data)
			list, err := checksum.Open(b.local("list", fmt.Appendf(nil, "%x  file\n",
				sha256.Sum256(data))), checksum.SHA256)
			ok(err)
			defer list.Close()
			c := checkJob{Host: b.host, Dir: "/copy", List: list}
			s, err := c.Run(t.Context())
			ok(err)
			if s.Files != 1 {
				t.Errorf("%+v", s.Totals)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			walk(newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{}))
		})
	}
	t.Run("striped-and-resumed-upload", func(t *testing.T) {
		striped(t, sftptest.Script{}, stripedAndResumed)
	})
}

// stripedAndResumed continues an upload over several connections. What its first half passes
// through does not count.
func stripedAndResumed(b *bench) {
	const size = 64 << 20
	source := b.local("source", random(size))
	time.Sleep(time.Hour) // on a fake clock: the source is old
	ctx, cancel := context.WithCancel(b.t.Context())
	journal := filepath.Join(b.dir, "journal")
	_, err := b.jobContext(ctx, upload, source, "/target", func(j *copyJob) {
		j.Options.Journal = journal
		j.Options.Events = func(e transfer.Event) {
			if e.Bytes > size/4 {
				cancel()
			}
		}
	})
	if err == nil {
		b.t.Fatal("the copy was not interrupted")
	}
	coverage.ClearCounters() // an error says that nothing is counted
	result, err := b.job(upload, source, "/target", func(j *copyJob) {
		j.Options.Journal, j.Options.Resume = journal, true
	})
	if err != nil || result.Resumed == 0 || result.Stripes == 0 {
		b.t.Errorf("%+v, %v", result, err)
	}
}
