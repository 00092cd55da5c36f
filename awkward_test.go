package usftp_test

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// panics runs f, which panics because a user's function does, as within net/http, which goes on
// after it.
func panics(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("the panic of a user's function was swallowed")
		}
	}()
	f()
}

// TestPanicsOfSourceAndSink: a program that recovers from its sink's or source's panic finds the
// client as it was.
func TestPanicsOfSourceAndSink(t *testing.T) {
	for at := range 6 {
		bubble(t, func(t *testing.T) {
			data := noise(1 << 20)
			r := newRig(t, sftptest.Script{}, time.Millisecond, usftp.WithMaxPacket(32<<10),
				usftp.WithMaxInFlight(1<<20))
			r.server.Files.WriteFile("/f", data)
			f := must[*usftp.File](t)(r.Open("/f"))
			n := 0
			panics(t, func() {
				f.WriteTo(writerFunc(func(p []byte) (int, error) {
					if n++; n > at {
						panic("sink")
					}
					return len(p), nil
				}))
			})
			ok(t, f.Close())
			g := must[*usftp.File](t)(r.Create("/g"))
			n = 0
			panics(t, func() {
				g.ReadFrom(readerFunc(func(p []byte) (int, error) {
					if n++; n > at {
						panic("source")
					}
					return len(p), nil
				}))
			})
			ok(t, g.Close())
			synctest.Wait()
			time.Sleep(time.Second)
			if out := usftp.PoolOut(r.Client); out != 0 {
				t.Errorf("at %d: %d bytes of the pool are out", at, out)
			}
			if free := usftp.BudgetFree(r.Client); free != 1<<20 {
				t.Errorf("at %d: %d bytes of the budget are free", at, free)
			}
			for range 3 {
				ok(t, r.WriteFile("/h", data, 0o600))
				if got := must[[]byte](t)(r.ReadFile("/h")); !bytes.Equal(got, data) {
					t.Errorf("at %d: the data differs", at)
				}
			}
		})
	}
}

// TestOffsetsAtTheEnd: what does not fit in front of the last offset there can be is an error, and
// neither a success nor a wait.
func TestOffsetsAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 0)
		r.server.Files.WriteFile("/f", nil)
		f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
		p := make([]byte, 100)
		for _, off := range []int64{math.MaxInt64, math.MaxInt64 - 10} {
			if n, err := f.WriteAt(p, off); err == nil {
				t.Errorf("WriteAt at %d: %d and no error", off, n)
			}
			if n, err := f.Async().WriteAt(p, off).Wait(); err == nil {
				t.Errorf("async WriteAt at %d: %d and no error", off, n)
			}
			if n, err := f.Async().ReadAt(p, off).Wait(); err == nil {
				t.Errorf("async ReadAt at %d: %d and no error", off, n)
			}
			if n, err := f.ReadAt(p, off); err == nil {
				t.Errorf("ReadAt at %d: %d and no error", off, n)
			}
			must[int64](t)(f.Seek(off, io.SeekStart))
			if n, err := f.ReadFrom(bytes.NewReader(p)); err == nil {
				t.Errorf("ReadFrom at %d: %d and no error", off, n)
			}
			if n, err := f.Write(p); err == nil {
				t.Errorf("Write at %d: %d and no error", off, n)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			began := time.Now()
			w := f.WithContext(ctx).Writer()
			_, err := w.Write(make([]byte, 1<<20))
			if err == nil {
				err = w.Flush()
			}
			if took := time.Since(began); err == nil || took > time.Minute {
				t.Errorf("a Writer at %d: %v, after %v", off, err, took)
			}
			cancel()
			f.Close()
			f = must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
		}
		f.Close()
	})
}

// TestFullTable: with as many requests in flight as there may be, files are closed and short reads
// asked again all the same.
func TestFullTable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var gate sftptest.Gate
		r := newRig(t, sftptest.Script{ShortReads: 10,
			Faults: []sftptest.Fault{{On: wire.TypeLstat, Do: sftptest.Hold(&gate)}}}, 0)
		r.server.Files.WriteFile("/f", noise(1000))
		f := must[*usftp.File](t)(r.Open("/f"))
		g := must[*usftp.File](t)(r.Open("/f"))
		p := make([]byte, 30)
		var last *usftp.Pending[int]
		const table = 32 << 10
		go func() {
			for range table - 1 {
				r.Async().Lstat("/f").Forget()
			}
			last = g.Async().ReadAt(p, 0)
			// one of these takes the place of the READ that comes back short
			r.Async().Lstat("/f").Forget()
			r.Async().Lstat("/f").Forget()
		}()
		synctest.Wait()
		ok(t, f.Close())
		if n, err := last.Wait(); n != len(p) || err != nil {
			t.Errorf("a short read amid many requests: %d, %v", n, err)
		}
		gate.Open()
		synctest.Wait()
		if n := r.server.OpenHandles(); n != 1 {
			t.Errorf("%d files are open on the server, want 1", n)
		}
	})
}

// TestRenamedFileIsNotStale: what was read ahead goes with a file's name.
func TestRenamedFileIsNotStale(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 0)
		r.server.Files.WriteFile("/f", bytes.Repeat([]byte("o"), 1<<20))
		f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
		p := make([]byte, 1000)
		for range 4 {
			must[int](t)(f.Read(p))
		}
		ok(t, f.Rename("/g"))
		g := must[*usftp.File](t)(r.OpenFile("/g", os.O_RDWR, 0))
		must[int](t)(g.WriteAt(bytes.Repeat([]byte("n"), 10_000), 0))
		must[int](t)(f.Read(p))
		if p[0] != 'n' {
			t.Error("a Read after a Rename misses what was written by the new name")
		}
		f.Close()
		g.Close()
	})
}
