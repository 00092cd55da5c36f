package usftp_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
)

// TestReadDirOfManyEntries: 100,000 entries over 50 ms, from a server that works in order, in less
// than 3 s.
func TestReadDirOfManyEntries(t *testing.T) {
	const n, rtt = 100_000, 50 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, rtt, usftp.WithServerVersion(openSSH))
		for i := range n {
			r.server.Files.WriteFile(fmt.Sprint("/d/", i), nil)
		}
		took := trips(rtt, func() {
			if files := must[[]*usftp.File](t)(r.ReadDir("/d")); len(files) != n {
				t.Errorf("%d entries", len(files))
			}
		})
		if took >= 60 {
			t.Errorf("%v round trips", took)
		}
	})
}

// TestListingAllocates: an entry costs its File and its name, no more.
func TestListingAllocates(t *testing.T) {
	client := startServer(t, usftp.WithServerVersion(openSSH))
	dir := t.TempDir()
	const n = 1_000
	for i := range n {
		ok(t, os.WriteFile(fmt.Sprintf("%s/file number %d", dir, i), nil, 0o600))
	}
	allocs := testing.AllocsPerRun(3, func() {
		for _, err := range client.Entries(dir) {
			ok(t, err)
		}
	})
	if allocs > 2.2*n {
		t.Errorf("%v allocations an entry", allocs/n)
	}
}

// TestIdleClient: ten seconds after the last transfer a client is two goroutines.
func TestIdleClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 0, usftp.WithWriteBehind(1<<20))
		synctest.Wait()
		before := runtime.NumGoroutine()
		f := must[*usftp.File](t)(r.Create("/f"))
		must[int64](t)(f.ReadFrom(bytes.NewReader(noise(5 << 20))))
		must[int](t)(f.Write(noise(1 << 20)))
		must[int64](t)(f.Seek(0, io.SeekStart))
		readAll(t, f, 1000)
		ok(t, f.Close())
		for range r.Walk("/") {
		}
		r.Async().Remove("/f").Forget()
		time.Sleep(10 * time.Second) // of the bubble's clock
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before {
			buf := make([]byte, 1<<16)
			t.Errorf("%d goroutines more\n%s", after-before, buf[:runtime.Stack(buf, true)])
		}
	})
}
