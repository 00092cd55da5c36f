package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// A copy whose connection is lost continues over a new one, and repeats nothing that was done.
func TestRetry(t *testing.T) {
	const size = 30 << 20
	data := random(size)
	link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
		RateBytesPerSec: 8 << 20}
	for name, test := range map[string]struct {
		script sftptest.Script
		lose   bool // while data flows
		dials  int  // that fail first
	}{
		"once":              {lose: true},
		"with nobody there": {lose: true, dials: 3},
		"rename not answered": {
			script: sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeExtended,
				Extension: wire.ExtPosixRename, Times: 1, Do: sftptest.Truncate(3)}}}},
		"rename not carried out": {
			script: sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeExtended,
				Extension: wire.ExtPosixRename, Times: 1, Do: sftptest.Hangup()}}}},
	} {
		for _, direction := range []way{upload, download} {
			t.Run(name+" "+direction.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, test.script, link)
					end := b.reconnect(link)
					source, target := b.local("source", data), "/target"
					b.server.Files.WriteFile("/source", data)
					if direction == download {
						source, target = "/source", filepath.Join(b.dir, "target")
					}
					if test.lose {
						time.AfterFunc(3*time.Second, func() { end.Cut(nil) })
					}
					left := test.dials
					b.host.Redial = func(context.Context) (pool.Host, error) {
						if left--; left >= 0 {
							return pool.Host{}, errors.New("nobody is there")
						}
						b.reconnect(link)
						return b.host, nil
					}
					began := time.Now()
					r, err := b.job(direction, source, target,
						func(j *copyJob) {
							j.Options.Retries, j.Options.Hash = 5,
								checksum.SHA256
						})
					if err != nil || r.Bytes != size || !r.Hash.Equal(hashOf(checksum.SHA256,
						data)) {
						t.Fatalf("%+v, %v", r, err)
					}
					if test.lose && r.Resumed == 0 {
						t.Error("it started over")
					}
					if took := time.Since(began); took > 25*time.Second {
						t.Errorf("it took %v", took)
					}
					if !bytes.Equal(b.arrived(direction), data) {
						t.Error("the target differs")
					}
					if left := b.temporaries(); len(left) > 0 {
						t.Errorf("left behind: %q", left)
					}
					retried := 0
					for _, e := range b.events {
						if e.Kind == transfer.Retried {
							retried++
						}
					}
					if want := test.dials + 1; (test.lose || direction == upload) &&
						retried != want {
						t.Errorf("%d tries were told, want %d", retried, want)
					}
				})
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, sftptest.Script{}, link)
		end := b.reconnect(link)
		time.AfterFunc(time.Second, func() { end.Cut(nil) })
		b.host.Redial = func(context.Context) (pool.Host, error) {
			return pool.Host{},
				errors.New("nobody is there")
		}
		if _, err := b.job(upload, b.local("source", random(size)), "/target",
			func(j *copyJob) { j.Options.Retries = 3 }); err == nil {
			t.Error("it went on without a host")
		}
	})
}
