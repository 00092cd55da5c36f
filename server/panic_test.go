package server_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

var errBroken = errors.New("the backend is broken")

// brokenFS panics in the methods of names that end in what is to break.
type brokenFS struct {
	*memfs.FS
	breaks atomic.Pointer[string]
}

func (b *brokenFS) maybe(what string) {
	if breaks := b.breaks.Load(); breaks != nil && *breaks == what {
		panic(errBroken)
	}
}

func (b *brokenFS) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	b.maybe("Stat")
	return b.FS.Stat(ctx, name)
}

func (b *brokenFS) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) {
		b.maybe("List")
		b.FS.List(ctx, name)(yield)
	}
}

func (b *brokenFS) Rename(ctx context.Context, from, to string) error {
	b.maybe("Rename")
	return b.FS.Rename(ctx, from, to)
}

func (b *brokenFS) Remove(ctx context.Context, name string) error {
	b.maybe("Remove")
	return b.FS.Remove(ctx, name)
}

func (b *brokenFS) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	b.maybe("Open")
	file, err := b.FS.Open(ctx, name, flags, attrs)
	if err != nil {
		return nil, err
	}
	return &brokenFile{file.(memFile), b}, nil
}

type brokenFile struct {
	memFile
	b *brokenFS
}

func (f *brokenFile) ReadAt(p []byte, offset int64) (int, error) {
	f.b.maybe("ReadAt")
	return f.memFile.ReadAt(p, offset)
}

func (f *brokenFile) WriteAt(p []byte, offset int64) (int, error) {
	f.b.maybe("WriteAt")
	return f.memFile.WriteAt(p, offset)
}

func (f *brokenFile) Stat() (fs.FileInfo, error) {
	f.b.maybe("File.Stat")
	return f.memFile.(server.FileStater).Stat()
}

func (f *brokenFile) Close() error {
	f.b.maybe("Close")
	return f.memFile.Close()
}

// serveCaught serves a session, and returns a client and what Serve panics with.
func serveCaught(t *testing.T, backend server.FS, o *server.Options) (*usftp.Client, <-chan any) {
	ours, theirs := net.Pipe()
	caught := make(chan any, 1)
	go func() {
		defer func() { caught <- recover() }()
		server.Serve(context.Background(), theirs, backend, o)
	}()
	client, err := usftp.NewClientPipe(ours, ours, usftp.WithServerVersion("SSH-2.0-usftp"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, caught
}

// A panic of the backend ends its session, and reaches the caller of Serve, who may recover it. It
// keeps nothing that another session of the user waits for: no file, no turn and no lock. Of all
// that a goroutine waits for in the bubble nothing may be left.
func TestPanicOfTheBackend(t *testing.T) {
	for method, call := range map[string]func(*usftp.Client) error{
		"Stat":   func(c *usftp.Client) error { _, err := c.Stat("/f"); return err },
		"List":   func(c *usftp.Client) error { _, err := c.ReadDir("/"); return err },
		"Rename": func(c *usftp.Client) error { return c.Rename("/f", "/g") },
		"Open": func(c *usftp.Client) error {
			_, err := c.OpenFile("/f", os.O_RDWR|os.O_CREATE, 0o600)
			return err
		},
		"ReadAt": func(c *usftp.Client) error {
			_, err := c.CheckFile("/f", usftp.CheckFile{})
			return err
		},
		"WriteAt":   func(c *usftp.Client) error { return c.WriteFile("/f", []byte("new"), 0o600) },
		"File.Stat": func(c *usftp.Client) error { return c.WriteFile("/f", []byte("new"), 0o600) },
		"Close":     func(c *usftp.Client) error { return c.WriteFile("/f", []byte("new"), 0o600) },
	} {
		for _, quota := range []bool{false, true} {
			t.Run(fmt.Sprint(method, " quota ", quota), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testPanic(t, method, quota, call) })
			})
		}
	}
}

func testPanic(t *testing.T, method string, quota bool, call func(*usftp.Client) error) {
	backend := &brokenFS{FS: memfs.New(0)}
	o := &server.Options{OpenFiles: server.NewOpenFiles(2), Work: &server.Work{},
		Pool: &server.Pool{}}
	o.MaxFileSize = 1 << 20
	if quota {
		o.Quota = server.NewQuota(1<<20, 100)
	}
	other, otherCaught := serveCaught(t, backend, o)
	if err := other.WriteFile("/f", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		client, caught := serveCaught(t, backend, o)
		backend.breaks.Store(&method)
		err := call(client)
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("the client got %v", err)
		}
		value, _ := (<-caught).(error)
		if !errors.Is(value, errBroken) || !strings.Contains(value.Error(), "worker).execute") {
			t.Errorf("Serve panicked with %v", value)
		}
		backend.breaks.Store(nil)
	}
	err := other.WriteFile("/f", []byte("another"), 0o600)
	if err == nil {
		err = other.Rename("/f", "/h")
	}
	if err == nil {
		_, err = other.CheckFile("/h", usftp.CheckFile{})
	}
	if err != nil {
		t.Errorf("another session: %v", err)
	}
	other.Close()
	if value := <-otherCaught; value != nil {
		t.Error(value)
	}
}

// A gate that has permitted a change hears of its end, whatever the backend does: it may let others
// wait until then.
func TestGateHearsOfPanic(t *testing.T) {
	for method, call := range map[string]func(*usftp.Client) error{
		"Rename": func(c *usftp.Client) error { return c.Rename("/f", "/g") },
		"Remove": func(c *usftp.Client) error { return c.Remove("/f") },
		"Close":  func(c *usftp.Client) error { return c.WriteFile("/f", []byte("new"), 0o600) },
	} {
		var asked, unsure int
		backend := &brokenFS{FS: memfs.New(0)}
		client, caught := serveCaught(t, backend, &server.Options{
			Gate: func(server.Event) (func(error), error) {
				asked++
				return func(err error) {
					if errors.Is(err, server.ErrUnsure) {
						unsure++
					}
				}, nil
			}})
		if err := client.WriteFile("/f", []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		asked = 0
		backend.breaks.Store(&method)
		call(client)
		if value, _ := (<-caught).(error); !errors.Is(value, errBroken) || asked != 1 || unsure != 1 {
			t.Errorf("%s: the gate was asked %d times and told %d times, after %v", method, asked,
				unsure, value)
		}
	}
}

// A function of the options that panics while the session ends reaches the caller, too, and all
// files are closed.
func TestPanicAtTheEnd(t *testing.T) {
	closed := 0
	backend := wrapping{memfs.New(0), func(f memFile) server.File { return &countedClose{f, &closed} }}
	client, caught := serveCaught(t, backend, &server.Options{Events: func(e server.Event) {
		if e.Kind == server.FileAbandoned {
			panic(errBroken)
		}
	}})
	for _, name := range []string{"/a", "/b", "/c"} {
		if _, err := client.Create(name); err != nil {
			t.Fatal(err)
		}
	}
	client.Close()
	if value, _ := (<-caught).(error); !errors.Is(value, errBroken) || closed != 3 {
		t.Errorf("%v; %d files were closed", value, closed)
	}
}

type countedClose struct {
	memFile
	closed *int
}

func (f *countedClose) Close() error {
	*f.closed++
	return f.memFile.Close()
}
