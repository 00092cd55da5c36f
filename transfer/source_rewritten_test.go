package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestSourceRewrittenInItsSecond: SFTP's times are whole seconds, so a source written to twice in
// one second, once before and once during the copy, shows the same size and time. No copy of it is
// torn, however long it takes.
func TestSourceRewrittenInItsSecond(t *testing.T) {
	const size = 8 << 20
	old := random(size)
	fresh := append(bytes.Clone(old[:size/8]), make([]byte, size-size/8)...)
	for name, link := range map[string]sftptest.LinkConfig{
		"short": {}, "long": {ToServer: 20 * time.Millisecond, ToClient: 20 * time.Millisecond,
			Window: 64 << 10},
	} {
		for _, way := range []string{"download", "writer", "relay"} {
			for _, behind := range []time.Duration{0, time.Hour} { // the server's clock
				t.Run(fmt.Sprint(name, " ", way, " ", behind), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						var rewritten atomic.Bool
						var b *bench
						stamp := func() { // it was read and written, by a clock that is behind
							now := time.Now().Add(-behind)
							if behind > 0 && b.server.Files.SetTimes("/source", now, now) != nil {
								t.Error("it has no times")
							}
						}
						b = newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
							if r.Type == wire.TypeRead && r.Offset >= size/4 &&
								!rewritten.Swap(true) {
								b.server.Files.Resize("/source", size/8)
								b.server.Files.Resize("/source", size)
								stamp()
							}
							return nil
						}}, link)
						b.server.Files.WriteFile("/source", old)
						b.server.Files.SetTimes("/source", oldTime, time.Now().Add(-behind))
						began := time.Now()
						var got []byte
						var err error
						switch way {
						case "download":
							_, err = b.job(download, "/source",
								filepath.Join(b.dir, "target"))
							if err == nil {
								got = b.read("target")
							}
						case "writer":
							var into bytes.Buffer
							_, err = b.job(download, "/source", "",
								func(j *copyJob) { j.Writer = &into })
							got = into.Bytes()
						case "relay":
							to := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
							_, err = to.job(relay, "/source", "/target",
								func(j *copyJob) { j.From = b.host })
							if err == nil {
								got = to.remote("/target")
							}
						}
						if !rewritten.Load() || name == "long" && time.Since(began) < 2*time.Second {
							t.Fatalf("rewritten: %v, after %v", rewritten.Load(), time.Since(began))
						}
						if err == nil && !bytes.Equal(got, old) && !bytes.Equal(got, fresh) {
							t.Error("the copy is torn")
						}
						if err != nil && !errors.Is(err, transfer.ErrSourceChanged) {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

// TestDoubtCostsLittle: a source whose second is over is read once; for any other, only what was
// read within that second is read again.
func TestDoubtCostsLittle(t *testing.T) {
	const size = 64 << 20
	data := random(size)
	for name, test := range map[string]struct {
		age         time.Duration
		least, most uint64
	}{
		"old": {time.Hour, size, size}, "fresh": {0, size + 1<<20, size * 3 / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{Window: 256 << 10,
					ToServer: 20 * time.Millisecond, ToClient: 20 * time.Millisecond})
				b.server.Files.WriteFile("/source", data)
				b.server.Files.SetModTime("/source", time.Now().Add(-test.age))
				if _, err := b.job(download, "/source",
					filepath.Join(b.dir, "target")); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(b.read("target"), data) {
					t.Error("the target differs")
				}
				var asked uint64
				for _, r := range b.server.Requests(wire.TypeRead) {
					if r.Offset < size {
						asked += r.Length
					}
				}
				if asked < test.least || asked > test.most {
					t.Errorf("%d bytes were asked for", asked)
				}
			})
		})
	}
}
