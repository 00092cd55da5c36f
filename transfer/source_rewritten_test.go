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
	const size = 24 << 20 // more than what is read again over the long link
	old := random(size)
	fresh := append(bytes.Clone(old[:size/8]), make([]byte, size-size/8)...)
	for name, link := range map[string]sftptest.LinkConfig{
		"short": {}, "long": {ToServer: 20 * time.Millisecond, ToClient: 20 * time.Millisecond,
			Window: 64 << 10},
	} {
		for _, way := range []string{"download", "writer", "relay"} {
			for _, behind := range []time.Duration{0, time.Hour} { // the server's clock
				t.Run(fmt.Sprintf("%s link, %s, clock %v behind", name, way, behind), func(t *testing.T) {
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
						b = newBench(t, sftptest.Script{
							Intercept: func(r sftptest.Request) []sftptest.Action {
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
						got, err := b.fetch(way, "/source")
						if !rewritten.Load() || name == "long" &&
							time.Since(began) < 2*time.Second {
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

// TestSmallSourceAnsweredShort is the same for a file that one reply could hold, on a server that
// answers less than was asked for.
func TestSmallSourceAnsweredShort(t *testing.T) {
	const size = 100 << 10
	old := random(size)
	fresh := append(bytes.Clone(old[:size/2]), make([]byte, size-size/2)...)
	for _, way := range []string{"download", "writer", "relay"} {
		for _, short := range []int{0, 16 << 10} {
			t.Run(fmt.Sprintf("%s, reads up to %d bytes", way, short), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var rewritten atomic.Bool
					var b *bench
					b = newBench(t, sftptest.Script{ShortReads: short,
						Intercept: func(r sftptest.Request) []sftptest.Action {
							if r.Type == wire.TypeRead && r.Offset >= size*3/4 && r.Offset < size &&
								!rewritten.Swap(true) {
								b.server.Files.Resize("/source", size/2)
								b.server.Files.Resize("/source", size)
							}
							return nil
						}}, sftptest.LinkConfig{})
					b.server.Files.WriteFile("/source", old)
					b.server.Files.SetModTime("/source", time.Now())
					got, err := b.fetch(way, "/source")
					if err == nil && !bytes.Equal(got, old) && !bytes.Equal(got, fresh) {
						t.Error("the copy is torn")
					}
					if err != nil && (short == 0 || !errors.Is(err, transfer.ErrSourceChanged)) {
						t.Error(err)
					}
					if rewritten.Load() != (short > 0) {
						t.Errorf("rewritten: %v", rewritten.Load())
					}
					data := 0
					for _, r := range b.server.Requests(wire.TypeRead) {
						if r.Offset < size {
							data++
						}
					}
					if short == 0 && data != 1 {
						t.Errorf("what came in one reply was read by %d requests", data)
					}
				})
			})
		}
	}
}

// fetch copies a file from the host to this machine, to a stream, or to another host.
func (b *bench) fetch(way, source string) (got []byte, err error) {
	b.t.Helper()
	switch way {
	case "download":
		if _, err = b.job(download, source, filepath.Join(b.dir, "target")); err == nil {
			got = b.read("target")
		}
	case "writer":
		var into bytes.Buffer
		_, err = b.job(download, source, "", func(j *copyJob) { j.Writer = &into })
		got = into.Bytes()
	case "relay":
		to := newBench(b.t, sftptest.Script{}, sftptest.LinkConfig{})
		_, err = to.job(relay, source, "/target", func(j *copyJob) { j.From = b.host })
		if err == nil {
			got = to.remote("/target")
		}
	}
	return got, err
}

// TestClockThatIsBehind: a host without times of reading whose clock is behind shows that in /proc,
// and its sources are as safe as others.
func TestClockThatIsBehind(t *testing.T) {
	const size = 1 << 20
	old := random(size)
	fresh := append(bytes.Clone(old[:size/2]), make([]byte, size-size/2)...)
	for _, way := range []string{"download", "writer", "relay"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rewritten atomic.Bool
				var b *bench
				b = newTreeBench(t, sftptest.Script{
					Intercept: func(r sftptest.Request) []sftptest.Action {
						if r.Type == wire.TypeRead && r.Offset >= size*3/4 &&
							!rewritten.Swap(true) {
							b.server.Files.Resize("/source", size/2)
							b.server.Files.Resize("/source", size)
							b.server.Files.SetTimes("/source", oldTime, time.Now().Add(-time.Hour))
						}
						return nil
					}}, sftptest.LinkConfig{})
				behind := time.Now().Add(-time.Hour)
				b.server.Files.Mkdir("/proc")
				b.server.Files.Mkdir("/proc/self")
				b.server.Files.WriteFile("/proc/self/mountstats", nil)
				b.server.Files.SetTimes("/proc/self/mountstats", behind, behind)
				b.server.Files.WriteFile("/source", old)
				b.server.Files.SetTimes("/source", oldTime, behind)
				got, err := b.fetch(way, "/source")
				if !rewritten.Load() {
					t.Fatal("it was not rewritten")
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

// TestRacySourceCostsLittle: a large source on a long link is read once: its second is over, or is
// waited for.
func TestRacySourceCostsLittle(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	data := random(size)
	for name, test := range map[string]struct {
		age time.Duration
	}{
		"old": {time.Hour}, "fresh": {0},
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
				if asked != size {
					t.Errorf("%d bytes were asked for", asked)
				}
			})
		})
	}
}

// TestPriceOfAYoungSource: a source that was written to just now takes hardly longer than an old
// one, whatever its size and the link, and no part of it is read twice where that would take long.
func TestPriceOfAYoungSource(t *testing.T) {
	const most = 1200 * time.Millisecond
	for name, link := range map[string]sftptest.LinkConfig{
		"short": {},
		"long":  {ToServer: 50 * time.Millisecond, ToClient: 50 * time.Millisecond, Window: 2 << 20},
		"slow":  {ToServer: 50 * time.Millisecond, ToClient: 50 * time.Millisecond, Window: 256 << 10},
	} {
		for _, way := range []string{"download", "writer", "relay"} {
			for _, size := range []int{100_000, 1 << 20, 8 << 20, 32 << 20} {
				t.Run(fmt.Sprintf("%s link, %s, %d bytes", name, way, size), func(t *testing.T) {
					t.Parallel()
					data := random(size)
					var took [2]time.Duration
					for i, age := range []time.Duration{time.Hour, 0} {
						synctest.Test(t, func(t *testing.T) {
							b := newBench(t, sftptest.Script{}, link)
							b.server.Files.WriteFile("/source", data)
							b.server.Files.SetModTime("/source", time.Now().Add(-age))
							began := time.Now()
							got, err := b.fetch(way, "/source")
							took[i] = time.Since(began)
							if err != nil || !bytes.Equal(got, data) {
								t.Errorf("%d bytes, %v", len(got), err)
							}
						})
					}
					if more := took[1] - took[0]; more > most {
						t.Errorf("an old one takes %v, a young one %v more", took[0], more)
					}
				})
			}
		}
	}
}
