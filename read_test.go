package usftp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

func noise(size int) []byte {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size)}).Read(data)
	return data
}

func TestWholeFiles(t *testing.T) {
	const rtt = 20 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, rtt)
		for _, size := range []int{0, 1, 4096, 1 << 20} {
			data := noise(size)
			if took := trips(rtt, func() { ok(t, r.WriteFile("/f", data, 0o640)) }); took > 3 {
				t.Errorf("WriteFile of %d bytes took %v round trips", size, took)
			}
			var got []byte
			if took := trips(rtt, func() { got = must[[]byte](t)(r.ReadFile("/f")) }); took > 2 {
				t.Errorf("ReadFile of %d bytes took %v round trips", size, took)
			}
			if !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back as %d others", size, len(got))
			}
		}
		if info := must[fs.FileInfo](t)(r.Stat("/f")); info.Mode() != 0o640 {
			t.Errorf("mode %v", info.Mode())
		}
		if _, err := r.ReadFile("/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
}

// fullWriter takes some bytes and then no more.
type fullWriter struct{ room int }

func (w *fullWriter) Write(p []byte) (n int, err error) {
	if n = min(w.room, len(p)); n < len(p) {
		err = io.ErrShortBuffer
	}
	w.room -= n
	return n, err
}

// TestWriteToOfAnOddCount: a writer that says that it took more than there was has failed.
func TestWriteToOfAnOddCount(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/f", []byte("text"))
	for _, says := range []int{-1, 5, 1 << 30} {
		f := must[*usftp.File](t)(r.Open("/f"))
		n, err := f.WriteTo(countWriter(says))
		if err != io.ErrShortWrite || n < 0 || n > 4 {
			t.Errorf("a Write of 4 bytes said %d, and WriteTo %d, %v", says, n, err)
		}
		ok(t, f.Close())
	}
}

// countWriter says that it took so many bytes, whatever it gets.
type countWriter int

func (n countWriter) Write([]byte) (int, error) { return int(n), nil }

// TestWriteToAFullWriter: what a writer has taken of a Write that fails counts, so that whoever goes
// on at the offset gets nothing twice.
func TestWriteToAFullWriter(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	data := noise(1 << 20)
	r.server.Files.WriteFile("/f", data)
	f := must[*usftp.File](t)(r.Open("/f"))
	for _, room := range []int{0, 10, 300_000} {
		before := must[int64](t)(f.Seek(0, io.SeekCurrent))
		n, err := f.WriteTo(&fullWriter{room})
		after := must[int64](t)(f.Seek(0, io.SeekCurrent))
		if n != int64(room) || after-before != n || err != io.ErrShortBuffer {
			t.Errorf("%d bytes were taken, and WriteTo returned %d, %v and moved the offset by %d",
				room, n, err, after-before)
		}
	}
}

// TestWriteToAFile: io.Copy from one remote file to another waits for no piece, and both offsets say
// how far it came.
func TestWriteToAFile(t *testing.T) {
	const rtt = 100 * time.Millisecond
	bubble(t, func(t *testing.T) {
		var f *usftp.File
		var seen atomic.Int64
		from := newRig(t, sftptest.Script{}, rtt)
		to := newRig(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeWrite {
				seen.Store(f.Progress())
			}
			return nil
		}}, rtt)
		data := noise(20 << 20)
		from.server.Files.WriteFile("/f", data)
		f = must[*usftp.File](t)(from.Open("/f"))
		g := must[*usftp.File](t)(to.OpenFile("/g", os.O_RDWR|os.O_CREATE, 0o600))
		must[int64](t)(f.Seek(5, io.SeekStart))
		var n int64
		var err error
		if took := trips(rtt, func() { n, err = io.Copy(g, f) }); took > 12 {
			t.Errorf("it took %v round trips", took)
		}
		if seen.Load() == 0 {
			t.Error("the progress is told only at the end")
		}
		at, end := must[int64](t)(g.Seek(0, io.SeekCurrent)), must[int64](t)(f.Seek(0, io.SeekCurrent))
		if n != int64(len(data))-5 || err != nil || at != n || end != n+5 || f.Progress() != n {
			t.Errorf("%d bytes, %v, to %d, from %d, progress %d", n, err, at, end, f.Progress())
		}
		ok(t, g.Close())
		if got := must[[]byte](t)(to.server.Files.ReadFile("/g")); !bytes.Equal(got, data[5:]) {
			t.Error("the data differs")
		}
		must[int64](t)(f.Seek(0, io.SeekStart))
		if n, err := f.WriteTo(g); n != 0 || !errors.Is(err, fs.ErrClosed) {
			t.Errorf("to a closed file: %d, %v", n, err)
		}
		if at := must[int64](t)(f.Seek(0, io.SeekCurrent)); at != 0 {
			t.Errorf("then the offset is %d", at)
		}
		ok(t, f.Close())
	})
}

// A reader of a range that is never closed ends with its file or its context: a goroutine that was
// left would keep the bubble from ending.
func TestRangeThatIsNotClosed(t *testing.T) {
	for want, end := range map[error]func(f *usftp.File, cancel func()){
		fs.ErrClosed:     func(f *usftp.File, _ func()) { f.Close() },
		context.Canceled: func(_ *usftp.File, cancel func()) { cancel() },
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{}, 0)
			r.server.Files.WriteFile("/f", noise(1<<20))
			f := must[*usftp.File](t)(r.Open("/f"))
			ctx, cancel := context.WithCancel(context.Background())
			part := f.WithContext(ctx).ReadRange(0, -1)
			must[int](t)(part.Read(make([]byte, 1)))
			synctest.Wait()
			end(f, cancel)
			synctest.Wait()
			if _, err := part.Read(make([]byte, 1)); !errors.Is(err, want) {
				t.Errorf("%v, not %v", err, want)
			}
			cancel()
		})
	}
}
