//go:build linux || darwin || freebsd

package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	packets "github.com/usftp/usftp/wire"
)

func noQuotas(string) []*server.Quota { return nil }

// TestSweepKeepsNothingOpen: a directory that nobody uses any more is closed, and what was abandoned
// there is removed in time all the same.
func TestSweepKeepsNothingOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var said bytes.Buffer
	s := &sweeper{log: slog.New(slog.NewTextHandler(&said, nil)), quotas: noQuotas}
	files, err := s.directory(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := files.Open(t.Context(), "/f", packets.OpenWrite|packets.OpenCreate, packets.Attrs{})
	if err == nil {
		_, err = f.(io.WriterAt).WriteAt([]byte("text"), 0)
	}
	if err == nil {
		err = f.(server.FileAbandoner).Abandon()
	}
	if err != nil {
		t.Fatal(err)
	}
	at := weak.Make(files)
	f, files = nil, nil
	for deadline := 1000; at.Value() != nil && deadline > 0; deadline-- {
		runtime.GC()
	}
	if at.Value() != nil {
		t.Error("the directory is open")
	}
	left := func() int {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if s.once(t.Context(), sweepAge); left() != 1 {
		t.Errorf("%d files are left of an upload that was just abandoned", left())
	}
	if s.once(t.Context(), -sweepAge); left() != 0 {
		t.Errorf("%d files are left of an old upload", left())
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if s.once(t.Context(), sweepAge); said.Len() > 0 { // a user's directory may go
		t.Errorf("the log says %s", &said)
	}
}

// TestSweepFreesQuotas: what is swept from a directory, or from object storage, counts no longer
// for any user of the root, on any node, and once, although all nodes sweep.
func TestSweepFreesQuotas(t *testing.T) {
	t.Parallel()
	home, _, file, _ := withObjects(t)
	root := filepath.Join(home, "files")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, []byte("log_level = \"quiet\"\nhost_keys = [\"hostkey\"]\n"+
		string(readFile(t, file))+`[[users]]
name = "carol"
root = "files"
authorized_keys = "id.pub"
quota_bytes = "100MB"
[[users]]
name = "dave"
root = "files"
authorized_keys = "id.pub"
quota_files = 100
[store]
file = "usftpd.db"
`))
	var nodes [2]*service
	for i := range nodes {
		nodes[i] = inProcess(t, file, false)
	}
	send := func(user, name string, length int, end func(f *server.ViewFile) error) {
		t.Helper()
		files, policy, err := nodes[0].Served()[user].Open()
		if err != nil {
			t.Fatal(err)
		}
		view, err := server.NewView(files, policy)
		if err != nil {
			t.Fatal(err)
		}
		f, err := view.Open(t.Context(), name,
			packets.OpenWrite|packets.OpenCreate|packets.OpenTruncate, packets.Attrs{})
		if err == nil {
			_, err = f.WriteAt(make([]byte, length), 0)
			err = errors.Join(err, end(f))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range []string{"alice", "carol"} {
		send(user, "/half", 12_000_000, func(f *server.ViewFile) error {
			return f.Abandon(io.ErrUnexpectedEOF)
		})
		send(user, "/whole", 1000, (*server.ViewFile).Close)
	}
	count := func(what string, kept map[string]int64, files int64) {
		t.Helper()
		for _, node := range nodes {
			for user, bytes := range kept {
				testenv.Until(t, user+what, func() bool {
					b, f := node.Served()[user].Quota.Usage()
					return b == 1000+bytes && f == files
				})
			}
		}
	}
	count("'s quota has what is abandoned", map[string]int64{"alice": 5 << 20, // a whole part
		"carol": 12_000_000, "dave": 12_000_000}, 2)
	var sweeps sync.WaitGroup
	for _, node := range nodes {
		sweeps.Go(func() { node.sweeper.once(t.Context(), -sweepAge) })
	}
	sweeps.Wait()
	count("'s quota has no longer what was swept", map[string]int64{"alice": 0, "carol": 0,
		"dave": 0}, 1)
}

// TestSweepIsNotLeftOut: a sweep that was due while the store did not answer is made up for within
// minutes, and the next one comes when it is due.
func TestSweepIsNotLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var swept []time.Duration
		began := time.Now()
		s := &sweeper{quotas: noQuotas, clock: func(context.Context) (time.Time, bool) {
			return time.Now(), time.Since(began) > time.Minute
		}}
		s.add("root", func(context.Context, time.Duration, ...*server.Quota) error {
			swept = append(swept, time.Since(began))
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), sweepEvery+time.Hour)
		defer cancel()
		s.run(ctx)
		if len(swept) != 2 || swept[0] > 10*time.Minute || swept[1]-swept[0] != sweepEvery {
			t.Errorf("it sweeps at %v", swept)
		}
	})
}
