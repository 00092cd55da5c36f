package usftp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestEverythingAtOnce: many goroutines use a Client and a File, for the race detector and to check
// what each reads.
func TestEverythingAtOnce(t *testing.T) {
	r := newRig(t, sftptest.Script{Reorder: 3, Seed: 1}, 0, usftp.WithWriteBehind(1<<20))
	data := noise(1 << 20)
	r.server.Files.WriteFile("/f", data)
	f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
	const region = 100_000
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			mine := bytes.Clone(data[i*region : (i+1)*region])
			for range 60 {
				at, size := rng.IntN(region), 1+rng.IntN(30_000)
				size = min(size, region-at)
				off := int64(i*region + at)
				switch rng.IntN(12) {
				case 0, 1:
					copy(mine[at:at+size], noise(size))
					if n, err := f.WriteAt(mine[at:at+size], off); n != size || err != nil {
						t.Error(n, err)
					}
				case 2:
					copy(mine[at:at+size], noise(size))
					if n, err := f.Async().WriteAt(mine[at:at+size], off).Wait(); n != size ||
						err != nil {
						t.Error(n, err)
					}
				case 3, 4:
					p := make([]byte, size)
					if n, err := f.ReadAt(p, off); n != size || err != nil ||
						!bytes.Equal(p, mine[at:at+size]) {
						t.Errorf("ReadAt: %d, %v", n, err)
					}
				case 5:
					p := make([]byte, size)
					if n, err := f.Async().ReadAt(p, off).Wait(); n != size || err != nil ||
						!bytes.Equal(p, mine[at:at+size]) {
						t.Errorf("async ReadAt: %d, %v", n, err)
					}
				case 6:
					f.Read(make([]byte, size))
				case 7:
					f.Seek(int64(rng.IntN(1<<20)), io.SeekStart)
				case 8:
					f.Stat()
					f.Size()
					f.SetStash(i)
				case 9:
					name := fmt.Sprint("/", i)
					if err := r.WriteFile(name, mine[:size], 0o600); err != nil {
						t.Error(err)
					}
					if got, err := r.ReadFile(name); err != nil || !bytes.Equal(got, mine[:size]) {
						t.Errorf("%s: %d bytes, %v", name, len(got), err)
					}
				case 10:
					for _, err := range r.Entries("/") {
						if err != nil {
							t.Error(err)
						}
					}
				case 11:
					g := must[*usftp.File](t)(r.Open("/f"))
					io.CopyN(io.Discard, g, int64(size))
					g.Close()
				}
			}
		})
	}
	wg.Wait()
	ok(t, f.Close())
}

// TestReadAtScales: reads from many goroutines travel concurrently.
func TestReadAtScales(t *testing.T) {
	const rtt = 50 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, rtt)
		data := noise(10 << 20)
		r.server.Files.WriteFile("/f", data)
		f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
		var wg sync.WaitGroup
		took := trips(rtt, func() {
			for i := range 1000 {
				wg.Go(func() {
					p := make([]byte, 4096)
					if n, err := f.ReadAt(p, int64(i*10_000)); n != 4096 || err != nil ||
						!bytes.Equal(p, data[i*10_000:i*10_000+4096]) {
						t.Error(n, err)
					}
				})
			}
			wg.Wait()
		})
		if took != 1 {
			t.Errorf("1,000 ReadAts took %v round trips", took)
		}
		took = trips(rtt, func() {
			for i := range 1000 {
				wg.Go(func() { must[int](t)(f.WriteAt(data[:4096], int64(i*10_000))) })
			}
			wg.Wait()
		})
		if took != 1 {
			t.Errorf("1,000 WriteAts took %v round trips", took)
		}
	})
}

func TestClientsOfAFile(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/f", []byte("hello"))
	f := usftp.NewFile(r.Client, "/f")
	if f.IsOpen() || f.AttrsCached() || f.Size() != 0 {
		t.Error("a new File is not blank")
	}
	ok(t, f.OpenRead())
	other := clientOf(t, r.server.Dial(sftptest.LinkConfig{}))
	if err := f.SetClient(other); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	ok(t, f.Close())
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	ok(t, f.SetClient(other))
	r.Close()
	ok(t, f.OpenRead())
	if got := readAll(t, f, 10); string(got) != "hello" {
		t.Errorf("%q", got)
	}
	ok(t, f.Rename("/g"))
	if f.Name() != "/g" || f.BaseName() != "g" {
		t.Error(f.Name())
	}
	ok(t, f.Close())
	r.server.Files.WriteFile("/h", nil)
	ok(t, f.PosixRename("/h"))
	must[fs.FileInfo](t)(f.Stat())
	if f.Size() != 5 {
		t.Error(f.Size())
	}
	ok(t, f.Remove())
	if r.server.Files.Exists("/h") {
		t.Error("the file is still there")
	}
}

// TestNothingAfterClose: a call that waits its turn while its file is closed sends nothing. The
// server may have given the handle to another file by then.
func TestNothingAfterClose(t *testing.T) {
	calls := map[string]func(f *usftp.File) error{
		"Async.WriteAt": func(f *usftp.File) error {
			_, err := f.Async().WriteAt(noise(10), 10).Wait()
			return err
		},
		"Async.ReadAt": func(f *usftp.File) error {
			_, err := f.Async().ReadAt(make([]byte, 10), 10).Wait()
			return err
		},
		"Async.CopyData": func(f *usftp.File) error {
			f.Async().CopyData(0, 5, f, 10).Wait() // which the server may refuse
			return nil
		},
		"WriteAt":  func(f *usftp.File) error { _, err := f.WriteAt(noise(10), 10); return err },
		"ReadAt":   func(f *usftp.File) error { _, err := f.ReadAt(make([]byte, 10), 10); return err },
		"Stat":     func(f *usftp.File) error { _, err := f.Stat(); return err },
		"StatVFS":  func(f *usftp.File) error { _, err := f.StatVFS(); return err },
		"Chmod":    func(f *usftp.File) error { return f.Chmod(0o600) },
		"Truncate": func(f *usftp.File) error { return f.Truncate(5) },
		"Sync":     func(f *usftp.File) error { return f.Sync() },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var gate sftptest.Gate
				r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{
					{On: wire.TypeWrite, Do: sftptest.Hold(&gate)}}}, 0, usftp.WithMaxInFlight(1))
				f := must[*usftp.File](t)(r.Create("/f"))
				full := f.Async().WriteAt(noise(10), 0)
				gate.Wait(1)
				waits := make(chan error, 1)
				go func() { waits <- call(f) }()
				synctest.Wait()
				closed := f.Async().Close()
				synctest.Wait()
				gate.Open()
				closed.Wait()
				full.Wait()
				if err := <-waits; err != nil && !errors.Is(err, fs.ErrClosed) {
					t.Error(err)
				}
				synctest.Wait()
				sent := r.server.Requests()
				if i := slices.IndexFunc(sent, func(r sftptest.Request) bool {
					return r.Type == wire.TypeClose
				}); i < 0 || i+1 < len(sent) {
					t.Errorf("sent: %v", sent)
				}
			})
		})
	}
}
