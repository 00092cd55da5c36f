package transfer_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// TestHashEndsWithItsAttempt: an attempt whose connection is lost reads nothing from its files, or
// their directory, once it has closed them. The hash of what came before the loss is read from the
// target.
func TestHashEndsWithItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 30 << 20
		link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
			RateBytesPerSec: 8 << 20}
		b := newBench(t, sftptest.Script{}, link)
		data := random(size)
		b.server.Files.WriteFile("/source", data)
		connect := func() {
			end := b.reconnect(link)
			time.AfterFunc(time.Second, func() { end.Cut(nil) })
		}
		connect()
		b.host.Redial = func(context.Context) (pool.Host, error) {
			connect()
			return b.host, nil
		}
		lost := 0
		r, err := b.job(download, "/source", filepath.Join(b.dir, "target"), func(j *copyJob) {
			j.Options.Retries, j.Options.Hash = 5, checksum.SHA256
			j.Options.Events = func(e transfer.Event) {
				if e.Kind != transfer.Retried {
					return
				}
				lost++
				opened, _ := filepath.Glob("/proc/self/fd/*")
				for _, fd := range opened {
					if path, _ := os.Readlink(fd); strings.HasPrefix(path, b.dir) {
						t.Errorf("after loss %d, %s is open", lost, path)
					}
				}
			}
		})
		if err != nil || lost < 2 || !r.Hash.Equal(hashOf(checksum.SHA256, data)) ||
			!bytes.Equal(b.read("target"), data) {
			t.Errorf("%d losses; %+v, %v", lost, r, err)
		}
	})
}
