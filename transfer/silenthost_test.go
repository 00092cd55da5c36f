package transfer_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// Who interrupts a run because its host has fallen silent does not wait for the host. One that
// takes its time for what is cleaned up, and answers otherwise, gets it.
func TestInterruptedWhileTheHostIsSilent(t *testing.T) {
	const size = 40 << 20
	slow := sftptest.Fault{On: wire.TypeFsetstat, Do: sftptest.Delay(3 * time.Second)}
	for _, test := range []struct {
		name    string
		silent  time.Duration // before the interruption
		pings   bool          // the host's transport answers
		faults  []sftptest.Fault
		atLeast time.Duration
		atMost  time.Duration
	}{
		{name: "silent for long", silent: 20 * time.Second, atMost: time.Second / 2},
		{name: "silent for long, but for pings", silent: 20 * time.Second, pings: true,
			atMost: time.Second / 2},
		{name: "silent at once", silent: time.Millisecond, atMost: 3 * time.Second / 2},
		{name: "slow", faults: []sftptest.Fault{slow}, pings: true, atLeast: 3 * time.Second,
			atMost: 5 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
					RateBytesPerSec: 4 << 20}
				b := newBench(t, sftptest.Script{Faults: test.faults}, link)
				end := b.server.Dial(link)
				b.host = connect(t, end, usftp.WithKeepalive(
					func(ctx context.Context) error {
						if test.pings {
							return nil
						}
						<-ctx.Done()
						return context.Cause(ctx)
					}))
				ctx, cancel := context.WithCancel(t.Context())
				var interrupted time.Time
				time.AfterFunc(4*time.Second, func() {
					if test.silent > 0 {
						end.Silence()
					}
					time.AfterFunc(test.silent, func() {
						interrupted = time.Now()
						cancel()
					})
				})
				r, err := b.jobContext(ctx, upload, b.local("source", random(size)), "/target",
					func(j *copyJob) { j.Options.Journal = filepath.Join(b.dir, "journal") })
				if took := time.Since(interrupted); err == nil || took < test.atLeast ||
					took > test.atMost {
					t.Errorf("it took %v to end with %v", took, err)
				}
				if left := b.temporaries(); r.LeftBehind == "" || len(left) != 1 ||
					int64(len(b.remote(left[0]))) < r.Bytes {
					t.Errorf("%d bytes are said to be left in %s; there is %v", r.Bytes, r.LeftBehind,
						left)
				}
			})
		})
	}
}
