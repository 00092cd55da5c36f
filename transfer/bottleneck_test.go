package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// slow is a Writer that takes its time, as a disk may.
type slow struct{ each time.Duration }

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(s.each) // simulates the disk
	return len(p), nil
}

// TestBottleneck: each kind of bottleneck is recognized when it limits a copy.
func TestBottleneck(t *testing.T) {
	t.Parallel()
	busy := func(d time.Duration) sftptest.Script {
		return sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeRead {
				return []sftptest.Action{sftptest.Call("busy",
					func(sftptest.Request) { time.Sleep(d) })}
			}
			return nil
		}}
	}
	for name, test := range map[string]struct {
		script sftptest.Script
		rate   int64 // of the link, bytes per second
		sink   io.Writer
		limit  int64
		trip   time.Duration // 100 ms if 0
		want   transfer.Bottleneck
	}{
		// Processor time is measured on the real clock: on a busy machine it could exceed a second
		// or two of the fake clock's.
		"windows": {trip: time.Second, want: transfer.BottleneckWindow},
		"link":    {rate: 4e6, want: transfer.BottleneckLink},
		"server":  {script: busy(50 * time.Millisecond), want: transfer.BottleneckServer},
		"disk":    {sink: slow{50 * time.Millisecond}, want: transfer.BottleneckDisk},
		"limit":   {limit: 4e6, want: transfer.BottleneckRateLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trip := max(test.trip, 100*time.Millisecond)
				server := sftptest.NewServer(t, test.script)
				server.Files.WriteFile("/source", make([]byte, 48<<20))
				link := sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2, Window: 2 << 20,
					RateBytesPerSec: test.rate}
				host := connect(t, server.Dial(link), inOrder, usftp.WithChannelWindow(link.Window),
					usftp.WithKeepalive(func(ctx context.Context) error {
						wait := trip
						if test.rate > 0 {
							wait += 300 * time.Millisecond // it waits in the link's queue
						}
						select {
						case <-time.After(wait):
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					}))
				job := copyJob{Host: host, Direction: download, Source: "/source", Target: "sink",
					Writer: test.sink}
				if job.Writer == nil {
					job.Writer = new(bytes.Buffer)
				}
				var told transfer.Bottleneck
				job.Options = transfer.Options{RateLimit: test.limit,
					Events: func(e transfer.Event) {
						if e.Kind == transfer.Done {
							told = e.Bottleneck
						}
					}}
				result, err := job.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if result.Bottleneck != test.want || told != test.want {
					t.Errorf("it took %v, bound by %q, told %q, want %q", result.Elapsed,
						result.Bottleneck, told, test.want)
				}
			})
		})
	}
}

// TestPausesDoNotCount: the time without a connection, or while a host stalls, is no part of the
// rate, and what limited it is the limit, whatever the link did for some of the time.
func TestPausesDoNotCount(t *testing.T) {
	const size, limit = 40 << 20, 4 << 20
	for name, test := range map[string]struct {
		lose   func(*sftptest.End)
		paused time.Duration // at least
	}{
		"cut":     {func(end *sftptest.End) { end.Cut(nil) }, 30 * time.Second},
		"stalled": {func(end *sftptest.End) { end.SilenceAfter(0) }, 90 * time.Second},
		"held": {func(end *sftptest.End) {
			end.Hold()
			time.AfterFunc(30*time.Second, end.Release)
		}, 25 * time.Second},
	} {
		for _, tree := range []bool{false, true} {
			for _, direction := range []way{upload, download} {
				t.Run(fmt.Sprintf("%s, %v, tree %t", name, direction, tree), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						link := sftptest.LinkConfig{ToServer: time.Millisecond,
							ToClient: time.Millisecond}
						b := newBench(t, sftptest.Script{}, link)
						end := b.reconnect(link)
						time.AfterFunc(4*time.Second, func() { test.lose(end) })
						b.host.Redial = func(context.Context) (pool.Host, error) {
							b.reconnect(link)
							return b.host, nil
						}
						source, target := filepath.Join(b.dir, "tree"), "/copy"
						if direction == download {
							source, target = "/tree", filepath.Join(b.dir, "copy")
							b.server.Files.Mkdir(source)
							b.server.Files.WriteFile("/tree/one", random(size))
						} else if err := os.Mkdir(source, 0o755); err != nil {
							t.Fatal(err)
						} else {
							b.local("tree/one", random(size))
						}
						if !tree {
							source += "/one"
						}
						_, err := b.tree(direction, source, target, func(j *treeJob) {
							j.Options.RateLimit, j.Options.Retries = limit, 1
							j.Options.Backoff = func(int) time.Duration { return 30 * time.Second }
						})
						if err != nil {
							t.Fatal(err)
						}
						e := b.events[len(b.events)-1]
						rate := float64(e.Bytes) / (e.Elapsed - e.Paused).Seconds()
						// In a pause, the limit still takes what had arrived before.
						const ahead = 64 * wire.MaxData
						if e.Paused < test.paused || e.Paused > test.paused+10*time.Second ||
							rate < 0.8*limit || rate > float64(limit)*size/(size-ahead) ||
							e.Bottleneck != transfer.BottleneckRateLimit {
							t.Errorf("%v, %v of them paused, %.1f MB/s, limited by %q", e.Elapsed,
								e.Paused, rate/1e6, e.Bottleneck)
						}
					})
				})
			}
		}
	}
}
