package usftp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
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

// panics runs f, which panics because a user's function does, and recovers, as net/http does.
func panics(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("the panic of a user's function was swallowed")
		}
	}()
	f()
}

// TestPanicsOfSourceAndSink: a program that recovers from a panic of its source or sink can still
// use the client.
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

// TestOffsetsAtTheEnd: data beyond the largest possible offset is an error, neither a success nor a
// hang.
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
			if n, err := f.ReadAt(make([]byte, 1<<20), off); err != io.EOF {
				t.Errorf("ReadAt of much at %d: %d and %v", off, n, err)
			}
			must[int64](t)(f.Seek(off, io.SeekStart))
			if n, err := f.WriteTo(io.Discard); n != 0 || err != nil {
				t.Errorf("WriteTo at %d: %d and %v", off, n, err)
			}
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

// A file has only one offset, so it cannot be read and written in one call. The call must not wait
// for itself.
func TestFileToItself(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/f", noise(1000))
	f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
	for name, call := range map[string]func() (int64, error){
		"ReadFrom":        func() (int64, error) { return f.ReadFrom(f) },
		"WriteTo":         func() (int64, error) { return f.WriteTo(f.WithContext(t.Context())) },
		"WriteTo, Writer": func() (int64, error) { return f.WriteTo(f.Writer()) },
	} {
		t.Run(name, func(t *testing.T) {
			if n, err := call(); n != 0 || !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
}

// scripted starts a server that follows a script and a client on it.
func scripted(t testing.TB, script sftptest.Script, link sftptest.LinkConfig,
	opts ...usftp.ClientOption) (*usftp.Client, *sftptest.Scripted) {
	t.Helper()
	server := sftptest.NewServer(t, script)
	client := clientOf(t, server.Dial(link), opts...)
	return client, server
}

func randomBytes(size int) []byte {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size), byte(size >> 8)}).Read(data)
	return data
}

// A transfer takes as many round trips as it needs and no more: for a download, OPEN and the READs;
// for an upload, OPEN, the WRITEs and CLOSE.
func TestTransferRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 100 * time.Millisecond
		client, server := scripted(t, sftptest.Script{}, sftptest.LinkConfig{ToServer: trip})
		data := randomBytes(10 << 20)
		server.Files.WriteFile("/source", data)

		began := time.Now()
		f, err := client.Open("/source")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if n, err := f.WriteTo(&got); err != nil || n != int64(len(data)) ||
			!bytes.Equal(got.Bytes(), data) {
			t.Fatal(n, err)
		}
		f.Close()
		if took := time.Since(began); took != 2*trip {
			t.Errorf("10 MiB down took %v, want 2 round trips of %v", took, trip)
		}

		began = time.Now()
		f, err = client.Create("/target")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := f.ReadFrom(bytes.NewReader(data)); err != nil || n != int64(len(data)) {
			t.Fatal(n, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 3*trip {
			t.Errorf("10 MiB up took %v, want 3 round trips of %v", took, trip)
		}
		if stored, err := server.Files.ReadFile("/target"); err != nil ||
			!bytes.Equal(stored, data) {
			t.Errorf("it arrived changed: %v", err)
		}
	})
}

// An upload slides: while the link's window holds only part of it, the link is never idle.
func TestUploadSlides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip, window, size = 100 * time.Millisecond, 2 << 20, 32 << 20
		client, _ := scripted(t, sftptest.Script{},
			sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2, Window: window},
			usftp.WithChannelWindow(window))
		f, err := client.Create("/target")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if n, err := f.ReadFrom(io.LimitReader(zeros{}, size)); n != size || err != nil {
			t.Fatal(n, err)
		}
		if took, want := time.Since(began), size/window*trip; took > want+2*trip {
			t.Errorf("%d windows took %v, want about %v", size/window, took, want)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Whatever a server is allowed to do, the bytes are right.
func TestTransfersWithUnusualServers(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { transferWith(t, seed) })
	}
}

func transferWith(t *testing.T, seed uint64) {
	data := randomBytes(1<<19 + 12345)
	script := sftptest.RandomScript(seed)
	client, server := scripted(t, script, sftptest.LinkConfig{Seed: seed})
	server.Files.WriteFile("/source", data)
	check := func(what string, got []byte, err error) {
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("seed %d: %s: %d bytes, %v\n%v", seed, what, len(got), err, script)
		}
	}
	f, err := client.Open("/source")
	if err != nil {
		t.Fatal(err)
	}
	var sink bytes.Buffer
	_, err = f.WriteTo(&sink)
	check("WriteTo", sink.Bytes(), err)
	whole := make([]byte, len(data))
	_, err = f.ReadAt(whole, 0)
	check("ReadAt", whole, err)
	f.Close()

	source := map[uint64]io.Reader{
		0: bytes.NewReader(data), 1: iotest.HalfReader(bytes.NewReader(data)),
		2: iotest.DataErrReader(bytes.NewReader(data)),
	}[seed%3]
	g, err := client.Create("/target")
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.ReadFrom(source)
	if closeErr := g.Close(); err == nil {
		err = closeErr
	}
	stored, _ := server.Files.ReadFile("/target")
	check("ReadFrom", stored, err)
}

func TestEndOfFileIsAskedAgain(t *testing.T) {
	data := randomBytes(3 << 20)
	client, server := scripted(t, sftptest.Script{FalseEOFAt: 600000}, sftptest.LinkConfig{})
	server.Files.WriteFile("/source", data)
	f, err := client.Open("/source")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if n, err := f.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d of %d bytes, %v", n, len(data), err)
	}
}

// After a failure the caller learns how much is safe, from the beginning and without a gap, and
// gets the first error.
func TestFailureTellsWhatIsSafe(t *testing.T) {
	const packet = wire.MaxData
	client, server := scripted(t, sftptest.Script{Faults: []sftptest.Fault{
		{On: wire.TypeWrite, From: 5 * packet, To: 5*packet + 1,
			Do: sftptest.Refuse(wire.Failure, "first")},
		{On: wire.TypeWrite, From: 7 * packet, To: 7*packet + 1,
			Do: sftptest.Refuse(wire.Failure, "second")},
		{On: wire.TypeRead, From: 5 * packet, To: 5*packet + 1,
			Do: sftptest.Refuse(wire.Failure, "first")},
		{On: wire.TypeRead, From: 7 * packet, To: 7*packet + 1,
			Do: sftptest.Refuse(wire.Failure, "second")},
	}, Reorder: 4}, sftptest.LinkConfig{})
	data := randomBytes(3 << 20)
	server.Files.WriteFile("/source", data)
	check := func(n int64, err error) {
		t.Helper()
		var path *fs.PathError
		if n != 5*packet || !errors.As(err, &path) || !strings.Contains(err.Error(), "first") {
			t.Errorf("%d bytes are safe, want %d: %v", n, 5*packet, err)
		}
	}
	f, err := client.Create("/target")
	if err != nil {
		t.Fatal(err)
	}
	check(f.ReadFrom(bytes.NewReader(data)))
	if at, err := f.Seek(0, io.SeekCurrent); at != 5*packet || err != nil {
		t.Errorf("the offset is %d, %v", at, err)
	}
	f.Close()
	g, err := client.Open("/source")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	check(g.WriteTo(&got))
	if !bytes.Equal(got.Bytes(), data[:5*packet]) {
		t.Error("what the writer has is not what is safe")
	}
}

// The errors of the caller's own reader and writer are returned unchanged.
func TestErrorsOfSourceAndSink(t *testing.T) {
	client, server := scripted(t, sftptest.Script{}, sftptest.LinkConfig{})
	data := randomBytes(2 << 20)
	server.Files.WriteFile("/source", data)
	broken := errors.New("broken")
	f, err := client.Create("/target")
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.ReadFrom(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)))
	if err != broken || n != int64(len(data)) {
		t.Errorf("ReadFrom: %d, %v", n, err)
	}
	g, err := client.Open("/source")
	if err != nil {
		t.Fatal(err)
	}
	n, err = g.WriteTo(&short{left: 1 << 20, err: broken})
	if err != broken || n != 4*wire.MaxData {
		t.Errorf("WriteTo: %d, %v", n, err)
	}
	if _, err := g.Stat(); err != nil {
		t.Errorf("the connection does not serve another call: %v", err)
	}
}

type short struct {
	left int
	err  error
}

func (s *short) Write(p []byte) (int, error) {
	if s.left < len(p) {
		return 0, s.err
	}
	s.left -= len(p)
	return len(p), nil
}

func TestCloseEndsATransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate sftptest.Gate
		client, server := scripted(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead,
			Do: sftptest.Hold(&gate)}}}, sftptest.LinkConfig{})
		server.Files.WriteFile("/source", randomBytes(4<<20))
		f, err := client.Open("/source")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			synctest.Wait()
			f.Close()
		}()
		if _, err := f.WriteTo(io.Discard); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("closing the file: %v", err)
		}
		g, err := client.Open("/source")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			synctest.Wait()
			client.Close()
		}()
		if _, err := g.WriteTo(io.Discard); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closing the client: %v", err)
		}
		gate.Open()
	})
}

// A slow sink slows only its own transfer.
func TestSlowSinkHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := scripted(t, sftptest.Script{}, sftptest.LinkConfig{},
			usftp.WithMaxInFlight(4<<20))
		server.Files.WriteFile("/source", randomBytes(8<<20))
		stuck := make(chan struct{})
		ended := make(chan struct{})
		for range 3 {
			f, err := client.Open("/source")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				f.WriteTo(blocked{stuck})
				ended <- struct{}{}
			}()
		}
		synctest.Wait()
		began := time.Now()
		f, err := client.Open("/source")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := f.WriteTo(io.Discard); n != 8<<20 || err != nil || time.Since(began) != 0 {
			t.Errorf("beside three stuck transfers: %d bytes in %v, %v", n, time.Since(began), err)
		}
		close(stuck)
		for range 3 {
			<-ended
		}
	})
}

type blocked struct{ until chan struct{} }

func (b blocked) Write(p []byte) (int, error) { <-b.until; return len(p), nil }

// Two uploads share a connection whose writer is busy with the first. The second neither waits for
// the first to end nor mistakes this for its own end.
func TestUploadBesideABusyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := scripted(t, sftptest.Script{},
			sftptest.LinkConfig{RateBytesPerSec: 1 << 20, Buffer: 64 << 10})
		sizes := map[string]int{"/first": 8 << 20, "/second": 1 << 20}
		done := make(chan string, len(sizes))
		upload := func(name string) {
			f, err := client.Create(name)
			if err != nil {
				t.Error(err)
			} else if n, err := f.ReadFrom(bytes.NewReader(make([]byte,
				sizes[name]))); n != int64(sizes[name]) || err != nil {
				t.Errorf("%s: %d bytes, %v", name, n, err)
			}
			done <- name
		}
		go upload("/first")
		time.Sleep(time.Second) // virtual time: the writer is busy now
		go upload("/second")
		if first := <-done; first != "/second" {
			t.Errorf("%s ended first", first)
		}
		<-done
		for name, size := range sizes {
			if data, err := server.Files.ReadFile(name); len(data) != size {
				t.Errorf("%s has %d bytes, %v", name, len(data), err)
			}
		}
	})
}

// A server that withholds the answer to the first READ but answers all others is not asked for the
// whole file, which would wait in memory.
func TestReorderIsBounded(t *testing.T) {
	data := make([]byte, 96<<20)
	for i := range data {
		data[i] = byte(i>>8 ^ i)
	}
	for _, ahead := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			gate := new(sftptest.Gate)
			client, server := scripted(t,
				sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == wire.TypeRead && r.Offset == 0 {
						return []sftptest.Action{sftptest.Hold(gate)}
					}
					return nil
				}}, sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond})
			server.Files.WriteFile("/file", data)
			f, err := client.Open("/file")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var got bytes.Buffer
			ended := make(chan error)
			go func() {
				var err error
				if ahead {
					r := f.ReadRange(0, -1)
					_, err = io.Copy(&got, r)
					r.Close()
				} else {
					_, err = f.WriteTo(&got)
				}
				ended <- err
			}()
			time.Sleep(10 * time.Second) // virtual time: nothing more comes
			synctest.Wait()
			if asked := len(server.Requests(wire.TypeRead)) * 255 << 10; asked > 40<<20 {
				t.Errorf("%d MiB were asked for before the first answer", asked>>20)
			}
			gate.Open()
			if err := <-ended; err != nil || !bytes.Equal(got.Bytes(), data) {
				t.Errorf("%d bytes, %v", got.Len(), err)
			}
		})
	}
}
