package usftp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestTenThousandPending: pending operations need no goroutine each, and few round trips.
func TestTenThousandPending(t *testing.T) {
	const n, rtt = 10_000, 50 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, rtt)
		r.server.Files.WriteFile("/f", []byte("12345"))
		before := testenv.Goroutines()
		async := r.Async()
		pending := make([]*usftp.Pending[fs.FileInfo], n)
		took := trips(rtt, func() {
			for i := range pending {
				pending[i] = async.Stat("/f")
			}
			synctest.Wait()
			if after := testenv.Goroutines(); after > before+1 {
				t.Errorf("%d goroutines for %d pending operations", after-before, n)
			}
			for _, p := range pending {
				if info, err := p.Wait(); err != nil || info.Size() != 5 {
					t.Fatal(info, err)
				}
			}
		})
		if took >= 6 {
			t.Errorf("%d stats took %v round trips", n, took)
		}
	})
}

func TestBatch(t *testing.T) {
	const n, rtt = 10_000, 50 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, rtt)
		for i := range n {
			if i%10 != 0 {
				r.server.Files.WriteFile(fmt.Sprint("/", i), make([]byte, i))
			}
		}
		items := func(yield func(int) bool) {
			for i := 0; i < n && yield(i); i++ {
			}
		}
		seen := make([]bool, n)
		took := trips(rtt, func() {
			for result := range usftp.Batch(items, 0,
				func(i int) *usftp.Pending[fs.FileInfo] {
					return r.Async().Stat(fmt.Sprint("/",
						i))
				}) {
				i := result.Item
				if seen[i] {
					t.Errorf("%d comes twice", i)
				}
				seen[i] = true
				if missing := i%10 == 0; missing != errors.Is(result.Err, fs.ErrNotExist) ||
					!missing && result.Value.Size() != int64(i) {
					t.Errorf("%d: %v, %v", i, result.Value, result.Err)
				}
			}
		})
		for i, ok := range seen {
			if !ok {
				t.Fatalf("%d is missing", i)
			}
		}
		if took >= 6 {
			t.Errorf("%v round trips", took)
		}
		for range usftp.Batch(items, 10,
			func(i int) *usftp.Pending[fs.FileInfo] {
				return r.Async().Lstat(fmt.Sprint("/",
					i))
			}) {
			break
		}
		synctest.Wait()
		if n := len(r.server.Requests(wire.TypeLstat)); n > 20 {
			t.Errorf("%d operations were started of a batch that was left at once", n)
		}
	})
}

// TestThen: functions are called one after the other, in order, and a slow one delays nothing else.
func TestThen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 0)
		r.server.Files.WriteFile("/f", nil)
		block, entered := make(chan struct{}), make(chan struct{})
		var order []int
		r.Async().Stat("/f").Then(func(fs.FileInfo, error) {
			close(entered)
			<-block
			order = append(order, 0)
		})
		<-entered
		var last *usftp.Pending[fs.FileInfo]
		for i := 1; i <= 5; i++ {
			last = r.Async().Stat("/f")
			last.Then(func(info fs.FileInfo, err error) {
				if err != nil || info == nil {
					t.Error(info, err)
				}
				order = append(order, i)
			})
			must[fs.FileInfo](t)(last.Wait())
		}
		data := noise(3 << 20)
		ok(t, r.WriteFile("/g", data, 0o600)) // a transfer does not wait for the function either
		finished := make(chan struct{})
		last.Then(func(fs.FileInfo, error) { close(finished) }) // it is complete already
		close(block)
		<-finished
		if fmt.Sprint(order) != "[0 1 2 3 4 5]" {
			t.Error(order)
		}
		synctest.Wait()
		before := testenv.Goroutines()
		r.Async().Stat("/f").Then(func(fs.FileInfo, error) {
			must[fs.FileInfo](t)(r.Stat("/f")) // a function may ask and wait
		})
		synctest.Wait()
		if after := testenv.Goroutines(); after > before {
			t.Errorf("%d goroutines stay behind", after-before)
		}
	})
}

// Who makes a client learns why there is none. Nobody else is told that the connection ended.
func TestNoClientReportsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		for _, option := range []usftp.ClientOption{
			usftp.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			usftp.WithErrorFunc(func(err error) { t.Error(err) })} {
			near, far := net.Pipe()
			go func() {
				far.Read(make([]byte, 100))
				far.Close() // the program does not exist there, or the run ends
			}()
			if _, err := usftp.NewClientPipe(near, near, option); err == nil {
				t.Error("there is a client")
			}
			synctest.Wait()
		}
		if log.Len() > 0 {
			t.Error(log.String())
		}
	})
}

func TestForget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var errs []error
		r := newRig(t, sftptest.Script{}, 0, usftp.WithErrorFunc(func(err error) {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}))
		r.server.Files.WriteFile("/f", nil)
		r.Async().Remove("/f").Forget()
		p := r.Async().Remove("/none")
		p.Forget()
		p.Forget()
		synctest.Wait()
		r.Async().Chown("/x", -1, -1).Forget()
		synctest.Wait()
		r.Close()
		synctest.Wait()
		if len(errs) != 3 || !errors.Is(errs[0], fs.ErrNotExist) ||
			!errors.Is(errs[1], fs.ErrInvalid) || !errors.Is(errs[2], usftp.ErrClosed) {
			t.Error(errs)
		}
	})
}

func TestPendingIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 10*time.Millisecond)
		gate := new(sftptest.Gate)
		data := noise(100_000)
		r.server.Files.WriteFile("/f", data)
		f := must[*usftp.File](t)(r.Open("/f"))
		r.server.AddFaults(sftptest.Fault{On: wire.TypeRead, Do: sftptest.Hold(gate)},
			sftptest.Fault{On: wire.TypeStat, Do: sftptest.Hold(gate)},
			sftptest.Fault{On: wire.TypeOpen, Do: sftptest.Hold(gate)})
		ctx, cancel := context.WithCancel(t.Context())
		buf := make([]byte, 100_000)
		read := f.WithContext(ctx).Async().ReadAt(buf, 0)
		view := r.WithContext(ctx).Async()
		stat, open := view.Stat("/f"), view.Open("/f")
		kept := r.Async().Stat("/f")
		if _, err := kept.WaitContext(done(t)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		gate.Wait(4)
		began := time.Now()
		cancel()
		if n, err := read.Wait(); n != 0 || !errors.Is(err, context.Canceled) {
			t.Error(n, err)
		}
		_, err1 := stat.Wait()
		_, err2 := open.Wait()
		if !errors.Is(err1, context.Canceled) || !errors.Is(err2, context.Canceled) ||
			time.Since(began) > 0 {
			t.Error(err1, err2, time.Since(began))
		}
		gate.Open()
		must[fs.FileInfo](t)(kept.Wait())
		must[fs.FileInfo](t)(r.Lstat("/f"))
		if !bytes.Equal(buf, make([]byte, len(buf))) {
			t.Error("the buffer was touched after the result was there")
		}
		if n := r.server.OpenHandles(); n != 1 {
			t.Errorf("%d handles are open, want the file's alone", n)
		}
	})
}

// done returns a context that is done.
func done(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestPendingEndsWithTheClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeStat,
			Do: sftptest.Drop()}}}, 0)
		p := r.Async().Stat("/")
		synctest.Wait()
		r.Close()
		if _, err := p.Wait(); !errors.Is(err, usftp.ErrClosed) {
			t.Error(err)
		}
		if _, err := r.Async().Stat("/").Wait(); !errors.Is(err, usftp.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestAsyncAt: ranges read and written piece by piece, over servers that answer short and out of
// order.
func TestAsyncAt(t *testing.T) {
	data := noise(700_001)
	for _, script := range []sftptest.Script{
		{}, {ShortReads: 1000}, {ShortReads: 32 << 10}, {RandomReads: true, Seed: 7}, {Reorder: 5,
			Seed: 3},
		{Extensions: []wire.ExtensionPair{}},
	} {
		r := newRig(t, script, 0)
		f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR|os.O_CREATE, 0o600))
		if n, err := f.Async().WriteAt(data, 5).Wait(); n != len(data) || err != nil {
			t.Errorf("%v: WriteAt: %d, %v", script, n, err)
		}
		for range 20 {
			off := rand.IntN(len(data))
			p := make([]byte, 1+rand.IntN(400_000))
			want := data[off:min(off+len(p), len(data))]
			n, err := f.Async().ReadAt(p, int64(5+off)).Wait()
			if n != len(want) || !bytes.Equal(p[:n], want) || (n < len(p)) != (err == io.EOF) {
				t.Errorf("%v: ReadAt of %d at %d: %d, %v", script, len(p), off, n, err)
			}
		}
		if n, err := f.Async().ReadAt(nil, 0).Wait(); n != 0 || err != nil {
			t.Error(n, err)
		}
		if _, err := f.Async().ReadAt(make([]byte, 1), -1).Wait(); !errors.Is(err, fs.ErrInvalid) {
			t.Error(err)
		}
		if _, err := f.Async().Sync().Wait(); err != nil && script.Extensions == nil {
			t.Error(err)
		}
		must[struct{}](t)(f.Async().Close().Wait())
		if _, err := f.Async().ReadAt(make([]byte, 1), 0).Wait(); !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestAsyncBudget: starting an operation waits when the budget of bytes is full, and no sooner.
func TestAsyncBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := new(sftptest.Gate)
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead,
			Do: sftptest.Hold(gate)}}}, 0, usftp.WithMaxInFlight(1<<20))
		r.server.Files.WriteFile("/f", noise(1<<20))
		must[usftp.Limits](t)(r.Limits())
		f := must[*usftp.File](t)(r.Open("/f"))
		var pending []*usftp.Pending[int]
		started := make(chan struct{})
		go func() {
			for i := range 12 {
				pending = append(pending, f.Async().ReadAt(make([]byte, 200<<10), int64(i)*1000))
			}
			close(started)
		}()
		gate.Wait(6) // the sixth overdraws what is left
		synctest.Wait()
		if n := gate.Held(); n != 6 {
			t.Errorf("%d reads of 200 KiB are in flight under a budget of 1 MiB", n)
		}
		gate.Open()
		<-started
		for _, p := range pending {
			if n, err := p.Wait(); n != 200<<10 || err != nil {
				t.Error(n, err)
			}
		}
	})
}

// TestFullTable: with as many requests in flight as possible, files are still closed and the
// missing part of short reads still requested.
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

// TestCancelledOpenLeavesNoHandle: an OPEN that is cancelled just as it is answered either returns
// its file or closes it.
func TestCancelledOpenLeavesNoHandle(t *testing.T) {
	const most = 100
	cancels := make(chan context.CancelFunc, most)
	r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeOpen,
		Do: sftptest.Call("cancel", func(sftptest.Request) { go (<-cancels)() })}}}, 0)
	r.server.Files.WriteFile("/f", nil)
	for range 100 {
		var opened []*usftp.Pending[*usftp.File]
		for range most {
			ctx, cancel := context.WithCancel(t.Context())
			cancels <- cancel
			opened = append(opened, r.WithContext(ctx).Async().Open("/f"))
		}
		for _, p := range opened {
			if f, err := p.Wait(); err == nil {
				ok(t, f.Close())
			}
		}
		for range 2 { // the second follows whatever the answers had closed
			must[fs.FileInfo](t)(r.Stat("/f"))
		}
		if n := r.server.OpenHandles(); n != 0 {
			t.Fatalf("%d handles are open", n)
		}
	}
}

// TestCancelledLookupEndsNothing: a question that nobody waits for any more may stay without an
// answer.
func TestCancelledLookupEndsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeLstat,
			Do: sftptest.Delay(1000 * time.Hour)}}}, 0,
			usftp.WithKeepalive(func(context.Context) error { return nil }),
			usftp.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.WithContext(ctx).Async().Lstat("/f").Wait()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		select {
		case <-r.Done():
			t.Errorf("the connection has ended: %v", r.Client.Wait())
		case <-time.After(time.Hour):
		}
		if log.Len() > 0 {
			t.Errorf("the log has: %s", &log)
		}
	})
}
