//go:build unix

package transfer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/sftptest"
)

// TestInterruptedAtAPipe: a copy whose source or target is a named pipe ends when told to, both
// with nobody at the other end and with an idle peer.
func TestInterruptedAtAPipe(t *testing.T) {
	for _, direction := range []way{upload, download} {
		for _, company := range []bool{false, true} {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			b.server.Files.WriteFile("/big", random(1<<20))
			pipe := filepath.Join(b.dir, "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			openOther := func() {
				other, err := os.OpenFile(pipe, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { other.Close() })
			}
			if company {
				openOther()
			}
			source, target := pipe, "/target"
			if direction == download {
				source, target = "/big", pipe
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := b.jobContext(ctx, direction, source, target)
				ended <- err
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, company %v: %v", direction, company, err)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%v, company %v: it does not end", direction, company)
			}
			if left := b.temporaries(); len(left) > 0 || b.server.Files.Exists("/target") {
				t.Errorf("left behind: %v", left)
			}
			// nobody should wait for it after the test
			openOther()
		}
	}
}
