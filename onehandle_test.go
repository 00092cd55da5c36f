package usftp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// withHandle are the types of requests that may carry a handle, besides CLOSE.
var withHandle = []wire.Type{wire.TypeRead, wire.TypeWrite, wire.TypeFstat, wire.TypeFsetstat,
	wire.TypeReaddir, wire.TypeExtended}

// share opens two files that get one handle.
func share(t *testing.T, r *rig) (a, b *usftp.File) {
	t.Helper()
	a = must[*usftp.File](t)(r.OpenFile("/a", os.O_RDWR|os.O_CREATE, 0o644))
	b = usftp.NewFile(r.Client, "/b")
	if err := b.Open(os.O_RDWR|os.O_CREATE, 0o644); !errors.Is(err, usftp.ErrSharedHandle) {
		t.Fatalf("opening the second file: %v", err)
	}
	return a, b
}

// Once two files have the same handle, nothing is sent on it: every method of both says why.
func TestSharedHandle(t *testing.T) {
	for name, call := range fileCalls {
		if slices.Contains([]string{"Open", "OpenRead", "DirEntry", "ReadDir", "Rename",
			"PosixRename", "Remove"}, name) {
			continue // they do not use the handle
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				extensions := append(sftptest.OpenSSHExtensions(),
					wire.ExtensionPair{Name: wire.ExtCheckFile, Data: "1"},
					wire.ExtensionPair{Name: wire.ExtChunks, Data: "1"})
				r := newRig(t, sftptest.Script{SharedHandles: 1, Extensions: extensions}, 0)
				a, _ := share(t, r)
				synctest.Wait()
				r.server.ForgetRequests()
				if err := call(r.Client, a); !errors.Is(err, usftp.ErrSharedHandle) {
					t.Errorf("the error is %v", err)
				}
				if sent := r.server.Requests(withHandle...); sent != nil {
					t.Errorf("sent: %v", sent)
				}
				if open := r.server.OpenHandles(); open != 0 {
					t.Errorf("%d handles are open", open)
				}
			})
		})
	}
}

// What is in flight or queued for a file fails, and the files are right when they are written
// again, one at a time. It is said once.
func TestSharedHandleStartsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRig(t, sftptest.Script{SharedHandles: 1}, 20*time.Millisecond,
			usftp.WithMaxInFlight(2<<20),
			usftp.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		a := must[*usftp.File](t)(r.Create("/a"))
		uploaded := make(chan error)
		go func() {
			_, err := a.ReadFrom(bytes.NewReader(noise(8 << 20)))
			uploaded <- err
		}()
		time.Sleep(5 * time.Millisecond) // its WRITEs are in flight
		if _, err := r.Create("/b"); !errors.Is(err, usftp.ErrSharedHandle) {
			t.Errorf("opening the second file: %v", err)
		}
		if err := <-uploaded; !errors.Is(err, usftp.ErrSharedHandle) {
			t.Errorf("writing the first: %v", err)
		}
		if err := a.Close(); !errors.Is(err, usftp.ErrSharedHandle) {
			t.Errorf("closing the first: %v", err)
		}
		written := make(chan error)
		for i := range 10 {
			go func() {
				written <- r.WriteFile(fmt.Sprintf("/%d", i), []byte(strings.Repeat("x", i)), 0o644)
			}()
		}
		for range 10 {
			ok(t, <-written)
		}
		for i := range 10 {
			if got := must[[]byte](t)(r.ReadFile(fmt.Sprintf("/%d", i))); len(got) != i {
				t.Errorf("/%d has %d bytes", i, len(got))
			}
		}
		synctest.Wait() // the log has a goroutine of its own
		if said := strings.Count(log.String(), "one handle"); said != 1 {
			t.Errorf("said %d times: %s", said, log.String())
		}
	})
}

// Whoever holds one file open and waits for another gets an error in bounded time. As long as the
// first is used, and when it is closed, the wait goes on.
func TestOneHandleIsNotWaitedForForever(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		r := newRig(t, sftptest.Script{SharedHandles: 1}, 0, usftp.WithStallTimeout(timeout))
		share(t, r)
		a := must[*usftp.File](t)(r.Open("/a"))
		began := time.Now()
		if _, err := r.Open("/b"); !errors.Is(err, usftp.ErrOneHandle) {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(began); took < timeout || took > 3*timeout {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.WithContext(ctx).Open("/b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if _, err := r.CopyFile("/a", "/c"); !errors.Is(err, usftp.ErrOneHandle) {
			t.Errorf("copying on the host: %v", err)
		}
		go func() {
			for range 20 { // somebody uses it
				time.Sleep(timeout / 2)
				a.Stat()
			}
			a.Close()
		}()
		must[*usftp.File](t)(r.Open("/b")).Close()
	})
}

// Whoever waits to open a file for another reason, such as requests that a server is slow to
// answer, is not told that the host has one handle.
func TestOpeningWaitsForRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{
			{On: wire.TypeLstat, Do: sftptest.Silence()}}}, 0, usftp.WithStallTimeout(time.Second))
		for range 1 << 15 { // as many as there may be
			r.Async().Lstat("/f").Forget()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := r.WithContext(ctx).Open("/f")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("opening a file: %v", err)
		}
	})
}

// A listing that was under way returns each name once, and files can be opened between its entries.
func TestListingWithSharedHandles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{SharedHandles: 1, ReaddirNames: 3}, 0)
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprintf("/d/%02d", i))
			r.server.Files.WriteFile(want[i], []byte(want[i]))
		}
		var got []string
		for f, err := range r.Entries("/d") {
			ok(t, err)
			got = append(got, f.Name())
			data, err := r.ReadFile(f.Name())
			if len(got) == 1 && errors.Is(err, usftp.ErrSharedHandle) {
				data, err = r.ReadFile(f.Name())
			}
			if err != nil || string(data) != f.Name() {
				t.Errorf("%s: %q, %v", f.Name(), data, err)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("listed: %q", got)
		}
	})
}

// A listing that starts over says why it cannot go on.
func TestListingThatStartsOverFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{SharedHandles: 1, ReaddirNames: 3}, 0)
		for i := range 20 {
			r.server.Files.WriteFile(fmt.Sprintf("/d/%02d", i), nil)
		}
		var failed error
		for f, err := range r.Entries("/d") {
			if failed = err; err != nil {
				break
			}
			if _, err := r.ReadFile(f.Name()); errors.Is(err, usftp.ErrSharedHandle) {
				r.server.AddFaults(sftptest.Fault{On: wire.TypeReaddir,
					Do: sftptest.Refuse(wire.PermissionDenied, "no")})
			}
		}
		if !errors.Is(failed, fs.ErrPermission) {
			t.Errorf("it failed with %v", failed)
		}
	})
}

// Trees that are listed in many places at once are complete.
func TestWalkWithSharedHandles(t *testing.T) {
	for _, handles := range []int{1, 2} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{SharedHandles: handles, ReaddirNames: 3},
				time.Millisecond)
			for i := range 400 {
				r.server.Files.WriteFile(fmt.Sprintf("/t/%d/%d/%d", i%5, i%20, i), nil)
			}
			files := 0
			for f, err := range r.Walk("/t") {
				ok(t, err)
				if !f.IsDir() {
					files++
				}
			}
			if files != 400 {
				t.Errorf("%d files were found", files)
			}
			ok(t, r.RemoveAll("/t"))
			if left := r.server.Files.List(); left != nil {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A server may give a handle again once the file is closed, and answer the two in any order.
func TestHandleGivenAgainAfterClose(t *testing.T) {
	for _, reorder := range []int{0, 4} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{SharedHandles: 1, Reorder: reorder},
				10*time.Millisecond)
			r.server.Files.WriteFile("/a", []byte("a"))
			for range 50 {
				f := must[*usftp.File](t)(r.Open("/a"))
				if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
					t.Fatal(err)
				}
				f.Close() // does not wait
			}
			if private.OfClient(r.Client).OneHandle() {
				t.Error("a handle that was closed is taken for an open one")
			}
		})
	}
}

// The raw form follows the handles, too.
func TestSharedHandleRaw(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{SharedHandles: 1}, 0)
		r.server.Files.WriteFile("/d/a", []byte("a"))
		raw := r.Raw()
		must[[]byte](t)(raw.Opendir("/d").Wait())
		_, err := raw.Open("/d/a", wire.OpenRead, wire.Attrs{}).Wait()
		if !errors.Is(err, usftp.ErrSharedHandle) {
			t.Fatalf("opening a second one: %v", err)
		}
		handle := must[[]byte](t)(raw.Open("/d/a", wire.OpenRead, wire.Attrs{}).Wait())
		second := make(chan *usftp.Pending[[]byte], 1)
		go func() { second <- raw.Opendir("/d") }() // when the first is closed
		if n := must[int](t)(raw.Read(handle, 0, make([]byte, 9)).Wait()); n != 1 {
			t.Errorf("read %d bytes", n)
		}
		must[struct{}](t)(raw.Close(handle).Wait())
		handle = must[[]byte](t)((<-second).Wait())
		if _, err := raw.Readdir(handle).Wait(); err != nil && err != io.EOF {
			t.Error(err)
		}
	})
}

// What one connection to a host has found out holds for the others, at their next OPEN, and for
// those that are made later. It is said once, with the host's name.
func TestOneHandleForAllConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		var shared atomic.Bool
		options := []usftp.ClientOption{private.WithOneHandle("far", &shared),
			usftp.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))}
		script := sftptest.Script{SharedHandles: 1}
		first, second := newRig(t, script, 0, options...), newRig(t, script, 0, options...)
		open := must[*usftp.File](t)(second.Create("/c"))
		share(t, first)
		must[*usftp.File](t)(second.Create("/d")).Close()
		if err := open.Close(); !errors.Is(err, usftp.ErrSharedHandle) {
			t.Errorf("closing what was open on the other connection: %v", err)
		}
		third := newRig(t, script, 0, options...)
		open = must[*usftp.File](t)(third.Create("/e"))
		waiting := make(chan error)
		go func() { waiting <- third.WriteFile("/f", nil, 0o644) }()
		synctest.Wait()
		if sent := third.server.Requests(wire.TypeOpen); len(sent) != 1 {
			t.Errorf("sent while a file is open: %v", sent)
		}
		ok(t, open.Close())
		ok(t, <-waiting)
		synctest.Wait()
		if said := strings.Count(log.String(), "host=far"); said != 1 {
			t.Errorf("said %d times: %s", said, log.String())
		}
	})
}
