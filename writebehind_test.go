package usftp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestWriteLoops: a loop of Writes is as fast as ReadFrom, with a Writer and with WithWriteBehind,
// whatever the size of a Write. The pieces of 100 KB are those of libssh2's example, which took a
// round trip for each.
func TestWriteLoops(t *testing.T) {
	const rtt = 140 * time.Millisecond
	data := noise(5 << 20)
	for _, size := range []int{100, 1 << 10, 100_000, 1 << 20} {
		for _, behind := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				opts := []usftp.ClientOption{}
				if behind {
					opts = append(opts, usftp.WithWriteBehind(16<<20))
				}
				r := newRig(t, sftptest.Script{}, rtt, opts...)
				f := must[*usftp.File](t)(r.Create("/f"))
				var w io.Writer = f.Writer()
				if behind {
					w = f
				}
				took := trips(rtt, func() {
					for rest := data; len(rest) > 0; {
						n := must[int](t)(w.Write(rest[:min(size, len(rest))]))
						rest = rest[n:]
					}
					ok(t, f.Close())
				})
				if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); !bytes.Equal(got, data) {
					t.Errorf("pieces of %d: the file differs", size)
				}
				if took > 3 {
					t.Errorf("pieces of %d, behind %v: %v round trips", size, behind, took)
				}
			})
		}
	}
}

// TestWriteErrorsComeLater: an error is returned by a later call and all that follow, and Close
// never reports success.
func TestWriteErrorsComeLater(t *testing.T) {
	calls := map[string]func(f *usftp.File, w *usftp.Writer) error{
		"Write": func(f *usftp.File, w *usftp.Writer) error {
			_,
				err := w.Write([]byte("x"))
			return err
		},
		"Flush": func(f *usftp.File, w *usftp.Writer) error { return w.Flush() },
		"Close": func(f *usftp.File, w *usftp.Writer) error { return w.Close() },
		"Sync":  func(f *usftp.File, w *usftp.Writer) error { return f.Sync() },
		"Seek": func(f *usftp.File, w *usftp.Writer) error {
			_,
				err := f.Seek(0, io.SeekStart)
			return err
		},
		"Read": func(f *usftp.File, w *usftp.Writer) error {
			_,
				err := f.Read(make([]byte, 1))
			return err
		},
		"Stat":     func(f *usftp.File, w *usftp.Writer) error { _, err := f.Stat(); return err },
		"Truncate": func(f *usftp.File, w *usftp.Writer) error { return f.Truncate(0) },
	}
	for name, call := range calls {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{FullAt: 1 << 20}, 0)
			f := must[*usftp.File](t)(r.Create("/f"))
			w := f.Writer()
			if n, err := w.Write(noise(2 << 20)); n == 0 ||
				err != nil && !errors.Is(err, usftp.ErrSSHFxFailure) {
				t.Errorf("%s: %d, %v", name, n, err)
			}
			synctest.Wait()
			for range 2 {
				if err := call(f, w); !errors.Is(err, usftp.ErrSSHFxFailure) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if n := f.Progress(); n == 0 || n > 1<<20 {
				t.Errorf("%s: %d bytes are said to be safe", name, n)
			}
			var named *fs.PathError
			if err := f.Close(); !errors.Is(err, usftp.ErrSSHFxFailure) ||
				!errors.As(err, &named) || named.Path != "/f" {
				t.Errorf("%s: Close: %v", name, err)
			}
			ok(t, f.Open(os.O_WRONLY, 0))
			if at := must[int64](t)(f.Seek(0, io.SeekCurrent)); at != f.Progress() {
				t.Errorf("%s: the offset is %d after %d bytes that are safe", name, at, f.Progress())
			}
			ok(t, f.Close())
			if n := r.server.OpenHandles(); n != 0 {
				t.Errorf("%s: %d handles are open", name, n)
			}
		})
	}
}

// TestWriteWhileOthersFlush: nothing that is written is lost while another goroutine has it sent.
func TestWriteWhileOthersFlush(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	f := must[*usftp.File](t)(r.Create("/f"))
	data, written := noise(1<<20), make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-written:
					return
				default:
					f.Stat()
				}
			}
		})
	}
	w := f.Writer()
	for rest := data; len(rest) > 0; {
		n := must[int](t)(w.Write(rest[:min(len(rest), 100)]))
		rest = rest[n:]
	}
	close(written)
	others.Wait()
	ok(t, f.Close())
	if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); !bytes.Equal(got, data) {
		t.Errorf("the file differs, or is too short: %d bytes", len(got))
	}
}

// TestWriteWhileAnotherCloses: whatever a Write has taken is in the file once it is closed well.
func TestWriteWhileAnotherCloses(t *testing.T) {
	for range 50 {
		r := newRig(t, sftptest.Script{}, 0)
		f := must[*usftp.File](t)(r.Create("/f"))
		began, taken := make(chan struct{}), make(chan int)
		go func() {
			total, w := 0, f.Writer()
			for {
				n, err := w.Write(make([]byte, 100))
				if err != nil {
					break
				}
				if total += n; total == 300 {
					close(began)
				}
			}
			taken <- total
		}()
		<-began
		err := f.Close()
		total := <-taken
		got := must[[]byte](t)(r.server.Files.ReadFile("/f"))
		if err == nil && len(got) < total {
			t.Fatalf("%d bytes of %d are in the file", len(got), total)
		}
	}
}

// TestWriterOfALostConnection: data that could not even be sent stays lost, whoever asks how often.
func TestWriterOfALostConnection(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	f := must[*usftp.File](t)(r.Create("/f"))
	w := f.Writer()
	must[int](t)(w.Write([]byte("behind")))
	r.Close()
	for _, call := range []func() error{w.Flush, w.Flush, w.Close, f.Close} {
		if err := call(); !errors.Is(err, usftp.ErrClosed) {
			t.Error(err)
		}
	}
	other := clientOf(t, r.server.Dial(sftptest.LinkConfig{}))
	ok(t, f.SetClient(other))
	ok(t, f.Open(os.O_WRONLY, 0))
	if at := must[int64](t)(f.Seek(0, io.SeekCurrent)); at != 0 {
		t.Errorf("the offset is %d, and nothing was written", at)
	}
}

func TestWriteBehindIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := new(sftptest.Gate)
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeWrite,
			Do: sftptest.Hold(gate)}}}, 0, usftp.WithWriteBehind(1<<20))
		f := must[*usftp.File](t)(r.Create("/f"))
		done := make(chan error)
		go func() {
			_, err := f.Write(noise(3 << 20))
			done <- err
		}()
		synctest.Wait()
		if n := gate.Held(); n < 3 || n > 5 {
			t.Errorf("%d WRITEs of 255 KiB are in flight, 1 MiB was allowed", n)
		}
		gate.Open()
		ok(t, <-done)
		ok(t, f.Close())
		if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); len(got) != 3<<20 {
			t.Errorf("%d bytes", len(got))
		}
	})
}

// TestWriterBesideAnotherUpload: a Writer with nothing in flight is not left waiting for a stream
// that is full of another file's data, which wakes nobody when it has gone.
func TestWriterBesideAnotherUpload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := sftptest.NewScripted(sftptest.Script{})
		defer server.Close()
		client := clientOf(t, server.Dial(sftptest.LinkConfig{RateBytesPerSec: 1 << 20,
			Buffer: 64 << 10}))
		other := must[*usftp.File](t)(client.Create("/other"))
		f := must[*usftp.File](t)(client.Create("/f"))
		uploaded := make(chan error)
		go func() {
			_, err := other.ReadFrom(bytes.NewReader(noise(4 << 20)))
			uploaded <- err
		}()
		synctest.Wait() // as much waits for the stream as may
		w := f.Writer()
		must[int](t)(w.Write([]byte("text")))
		flushed := make(chan error, 1)
		go func() { flushed <- w.Flush() }()
		ok(t, <-uploaded)
		select {
		case err := <-flushed:
			ok(t, err)
		case <-time.After(time.Hour):
			t.Error("Flush waits although nothing else is under way")
		}
		ok(t, f.Abandon())
	})
}

func TestWriterAppends(t *testing.T) {
	r := newRig(t, sftptest.Script{Reorder: 3}, 0)
	r.server.Files.WriteFile("/f", []byte("start "))
	f := must[*usftp.File](t)(r.OpenFile("/f", os.O_WRONLY|os.O_APPEND, 0))
	data := noise(2 << 20)
	w := f.Writer()
	for rest := data; len(rest) > 0; rest = rest[min(len(rest), 70_000):] {
		must[int](t)(w.Write(rest[:min(len(rest), 70_000)]))
	}
	ok(t, w.Close())
	if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); !bytes.Equal(got,
		append([]byte("start "), data...)) {
		t.Error("the file differs")
	}
}

func TestCloseEndsAWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeWrite,
			Do: sftptest.Drop()}}}, 0, usftp.WithWriteBehind(1<<20))
		f := must[*usftp.File](t)(r.Create("/f"))
		ended := make(chan error)
		go func() { _, err := f.Write(noise(3 << 20)); ended <- err }()
		synctest.Wait()
		if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestAsyncAndWriter: started operations do not wait for written-behind data unless it was flushed.
func TestAsyncAndWriter(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	holds := func(when, want string) {
		t.Helper()
		if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); string(got) != want {
			t.Errorf("%s the file holds %q, want %q", when, got, want)
		}
	}
	f := must[*usftp.File](t)(r.Create("/f"))
	w := f.Writer()
	must[int](t)(w.Write([]byte("behind")))
	must[int](t)(f.Async().WriteAt([]byte("start"), 0).Wait())
	holds("before Flush", "start")
	ok(t, w.Flush())
	holds("after it", "behind")
	must[int](t)(f.Async().WriteAt([]byte("start"), 0).Wait())
	holds("what was started after it", "startd")
	ok(t, f.Close())
}

// TestWriterWhereWritesAreRefused: on a server that takes one WRITE at a time, a Writer fails with
// an error until that is known about the server.
func TestWriterWhereWritesAreRefused(t *testing.T) {
	r := newRig(t, sftptest.Script{OneWrite: true}, 0)
	data := noise(3 << 20)
	write := func(name string) error {
		f := must[*usftp.File](t)(r.Create(name))
		_, err := f.Writer().Write(data)
		return errors.Join(err, f.Close())
	}
	if err := write("/first"); !errors.Is(err, usftp.ErrSSHFxFailure) {
		t.Errorf("the first: %v", err)
	}
	f := must[*usftp.File](t)(r.Create("/second"))
	must[int64](t)(f.ReadFrom(bytes.NewReader(data)))
	ok(t, f.Close())
	ok(t, write("/third"))
	for _, name := range []string{"/second", "/third"} {
		if got := must[[]byte](t)(r.server.Files.ReadFile(name)); !bytes.Equal(got, data) {
			t.Errorf("%s differs", name)
		}
	}
}

// flushesNothing are the methods of File in fileCalls that may run before written-behind data has
// been sent: further writing, and methods that do not use the open file.
var flushesNothing = []string{"Write", "Writer", "Remove", "Open", "OpenRead", "DirEntry", "Async"}

// flushesToo are further methods that take no context but still must flush first.
var flushesToo = map[string]anyCall{
	"Close":  func(_ *usftp.Client, f *usftp.File) error { return f.Close() },
	"Handle": func(_ *usftp.Client, f *usftp.File) error { _, err := f.Handle(); return err },
}

// Whatever a File is asked, written-behind data goes first, and its failure is reported.
func TestEveryCallFlushesWhatWasWritten(t *testing.T) {
	calls := maps.Clone(flushesToo)
	for name, call := range fileCalls {
		if !slices.Contains(flushesNothing, name) {
			calls[name] = call
		}
	}
	for name, call := range calls {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/fails %v", name, fails), func(t *testing.T) {
				extensions := append(sftptest.OpenSSHExtensions(),
					wire.ExtensionPair{Name: wire.ExtCheckFile, Data: "1"})
				r := newRig(t, sftptest.Script{Extensions: extensions}, 0)
				r.server.Files.WriteFile("/f", noise(2<<20))
				f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
				must[usftp.Limits](t)(r.Limits())
				must[int](t)(f.Writer().Write([]byte("written behind")))
				before := len(r.server.Requests())
				if fails {
					r.server.AddFaults(sftptest.Fault{On: wire.TypeWrite,
						Do: sftptest.Refuse(wire.Failure, "disk full")})
				}
				ctx, cancel := context.WithCancel(t.Context())
				if endless := strings.Contains(name, "ReadFrom"); endless && !fails {
					r.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Skip: 2,
						Do: sftptest.Call("cancel", func(sftptest.Request) { cancel() })})
				}
				defer cancel()
				err := call(r.Client, f.WithContext(ctx))
				if fails && !errors.Is(err, usftp.ErrSSHFxFailure) {
					t.Errorf("the error is %v", err)
				}
				requests := r.server.Requests()[before:]
				if len(requests) == 0 || requests[0].Type != wire.TypeWrite ||
					requests[0].Length != uint64(len("written behind")) {
					t.Errorf("what was written did not come first: %v", requests)
				}
			})
		}
	}
}

// TestWriterKeepsItsError: what a Writer could not take is said by Flush and Close, too, since many
// programs check nothing else, as with bufio.Writer.
func TestWriterKeepsItsError(t *testing.T) {
	files := map[string]struct {
		prepare func(f *usftp.File) error
		flag    int
		want    error
	}{
		"closed":    {(*usftp.File).Close, os.O_WRONLY, fs.ErrClosed},
		"read-only": {func(*usftp.File) error { return nil }, os.O_RDONLY, fs.ErrInvalid},
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, sftptest.Script{}, 0)
			r.server.Files.WriteFile("/f", nil)
			f := must[*usftp.File](t)(r.OpenFile("/f", file.flag, 0))
			ok(t, file.prepare(f))
			w := f.Writer()
			ok(t, w.Flush())
			_, wrote := w.Write([]byte("x"))
			_, again := w.Write([]byte("y"))
			for _, err := range []error{wrote, again, w.Flush(), w.Close()} {
				if !errors.Is(err, file.want) {
					t.Errorf("the error is %v", err)
				}
			}
			if err := f.Writer().Flush(); err != nil {
				t.Errorf("the error of another Writer: %v", err)
			}
		})
	}
}
