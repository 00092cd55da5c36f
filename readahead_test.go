package usftp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestRenamedFileIsNotStale: read-ahead data belongs to a file's name.
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

// readAll reads a file in pieces of one size.
func readAll(t *testing.T, f io.Reader, size int) []byte {
	var all []byte
	p := make([]byte, size)
	for {
		n, err := f.Read(p)
		all = append(all, p[:n]...)
		if err == io.EOF {
			return all
		}
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
	}
}

// TestReadAhead: a loop of small Reads is as fast as the link, with all sorts of servers.
func TestReadAhead(t *testing.T) {
	const rtt = 50 * time.Millisecond
	data := noise(10 << 20)
	for _, script := range []sftptest.Script{
		{}, {ShortReads: 32 << 10}, {RandomReads: true, Seed: 1}, {Reorder: 4,
			Seed: 2}, {FalseEOFAt: 5 << 20}, {Extensions: []wire.ExtensionPair{}},
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, script, rtt)
			r.server.Files.WriteFile("/f", data)
			f := must[*usftp.File](t)(r.Open("/f"))
			var got []byte
			took := trips(rtt, func() { got = readAll(t, f, 1<<10) })
			if !bytes.Equal(got, data) {
				t.Fatalf("%v: the data differs", script)
			}
			if took > 12 && !script.RandomReads && script.Reorder == 0 {
				t.Errorf("%v: 10 MiB in pieces of 1 KiB took %v round trips", script, took)
			}
			if n := len(r.server.Requests(wire.TypeFstat)); n != 1 {
				t.Errorf("%v: %d FSTATs", script, n)
			}
			ok(t, f.Close())
		})
	}
}

// TestLargeReads: read-ahead never makes a Read take more round trips.
func TestLargeReads(t *testing.T) {
	const rtt = 50 * time.Millisecond
	data := noise(10 << 20)
	for size, most := range map[int]float64{4 << 20: 3, 1 << 20: 6, 128 << 10: 7} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{}, rtt)
			r.server.Files.WriteFile("/f", data)
			f := must[*usftp.File](t)(r.Open("/f"))
			took := trips(rtt, func() {
				p := make([]byte, size)
				for total := 0; total < len(data); {
					n := must[int](t)(f.Read(p))
					if !bytes.Equal(p[:n], data[total:total+n]) {
						t.Fatal("the data differs")
					}
					total += n
				}
			})
			if took > most {
				t.Errorf("pieces of %d: %v round trips", size, took)
			}
		})
	}
}

// TestReadAheadStartsSecond: one Read requests only what it needs, and the attributes; a second,
// sequential one starts to read ahead.
func TestReadAheadStartsSecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, ahead := range []int64{0, 1 << 20} {
			r := newRig(t, sftptest.Script{}, 0, usftp.WithReadAhead(ahead))
			r.server.Files.WriteFile("/f", noise(4<<20))
			f := must[*usftp.File](t)(r.Open("/f"))
			asked := func() (bytes, fstats int) {
				synctest.Wait()
				for _, request := range r.server.Requests(wire.TypeRead) {
					bytes += int(request.Length)
				}
				return bytes, len(r.server.Requests(wire.TypeFstat))
			}
			p := make([]byte, 1000)
			must[int](t)(f.Read(p))
			must[int64](t)(f.Seek(100, io.SeekCurrent))
			must[int](t)(f.Read(p))
			bytes, fstats := asked()
			if bytes != 2000 || (fstats == 1) != (ahead > 0) {
				t.Errorf("two Reads apart have asked for %d bytes and %d times for attributes",
					bytes, fstats)
			}
			must[int](t)(f.Read(p))
			if bytes, _ := asked(); (bytes > 3000) != (ahead > 0) {
				t.Errorf("with %d, a third Read that follows the second has asked for %d bytes in all", ahead, bytes)
			}
			for range 2000 {
				must[int](t)(f.Read(p))
			}
			if bytes, _ := asked(); bytes > 2_003_000+int(ahead) {
				t.Errorf("with %d, %d bytes were asked for", ahead, bytes)
			}
			f.Close()
		}
	})
}

// TestReadAheadIsDropped: Read never misses anything that this client has written, by whichever
// method.
func TestReadAheadIsDropped(t *testing.T) {
	old, fresh := bytes.Repeat([]byte("o"), 1<<20), bytes.Repeat([]byte("n"), 1<<20)
	for name, change := range map[string]func(t *testing.T, r *rig, f *usftp.File) error{
		"same file": func(t *testing.T, r *rig, f *usftp.File) error {
			_,
				err := f.WriteAt(fresh, 0)
			return err
		},
		"other file": func(t *testing.T, r *rig, f *usftp.File) error {
			g := must[*usftp.File](t)(r.OpenFile("//f", os.O_RDWR, 0))
			_, err := g.Write(fresh)
			return err
		},
		"ReadFrom": func(t *testing.T, r *rig, f *usftp.File) error {
			g := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
			_, err := g.ReadFrom(bytes.NewReader(fresh))
			return err
		},
		"Writer": func(t *testing.T, r *rig, f *usftp.File) error {
			w := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0)).Writer()
			w.Write(fresh)
			return w.Close()
		},
		"async": func(t *testing.T, r *rig, f *usftp.File) error {
			_, err := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0)).Async().WriteAt(fresh,
				0).Wait()
			return err
		},
		"WriteFile": func(t *testing.T, r *rig, f *usftp.File) error {
			return r.WriteFile("/f",
				fresh, 0)
		},
		"copy": func(t *testing.T, r *rig, f *usftp.File) error {
			r.server.Files.WriteFile("/g", fresh)
			_, err := r.CopyFile("/g", "/f")
			return err
		},
		"seek": func(t *testing.T, r *rig, f *usftp.File) error {
			other := clientOf(t, r.server.Dial(sftptest.LinkConfig{}))
			ok(t, other.WriteFile("/f", fresh, 0))
			_, err := f.Seek(0, io.SeekCurrent)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, sftptest.Script{}, 0)
				r.server.Files.WriteFile("/f", old)
				f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
				p := make([]byte, 1000)
				for range 4 {
					must[int](t)(f.Read(p))
				}
				synctest.Wait()
				ok(t, change(t, r, f))
				must[int](t)(io.ReadFull(f, p))
				if !bytes.Equal(p, fresh[:1000]) {
					t.Errorf("what was read before is read again: %q", p[:10])
				}
			})
		})
	}
}

// TestEndIsNeverRemembered: a file that grows can be read further, as tail does.
func TestEndIsNeverRemembered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 0)
		r.server.Files.WriteFile("/log", noise(10_000))
		f := must[*usftp.File](t)(r.Open("/log"))
		p := make([]byte, 3000)
		for range 3 {
			must[int](t)(io.ReadFull(f, p))
		}
		synctest.Wait() // the end is known by now
		ok(t, r.server.Files.Append("/log", []byte("more")))
		if got := string(readAll(t, f, 3000)); len(got) != 1004 || got[1000:] != "more" {
			t.Errorf("%d bytes: %q", len(got), got[max(0, len(got)-4):])
		}
		for range 3 {
			if n, err := f.Read(p); n != 0 || err != io.EOF {
				t.Error(n, err)
			}
			ok(t, r.server.Files.Append("/log", []byte("x")))
			if n, err := f.Read(p); n != 1 || err != nil {
				t.Error(n, err)
			}
		}
	})
}

// TestReadAheadIsCounted: read-ahead data counts in the budget until it is read or dropped.
func TestReadAheadIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 0, usftp.WithMaxInFlight(4<<20))
		data := noise(8 << 20)
		r.server.Files.WriteFile("/f", data)
		var files []*usftp.File
		p := make([]byte, 200<<10)
		for range 8 {
			f := must[*usftp.File](t)(r.Open("/f"))
			for range 4 {
				must[int](t)(io.ReadFull(f, p))
			}
			files = append(files, f)
		}
		synctest.Wait()
		asked := uint64(0)
		for _, request := range r.server.Requests(wire.TypeRead) {
			asked += request.Length
		}
		if ahead := int64(asked) - 8*4*200<<10; ahead > 4<<20 {
			t.Errorf("%d bytes were asked for ahead, under a budget of 4 MiB", ahead)
		}
		for _, f := range files {
			if got := readAll(t, f, 100<<10); !bytes.Equal(got, data[800<<10:]) {
				t.Error("the data differs")
			}
			ok(t, f.Close())
		}
		// the whole budget is free again
		if got := must[[]byte](t)(r.ReadFile("/f")); !bytes.Equal(got, data) {
			t.Error("the data differs")
		}
	})
}

// TestReadWithLittleBudget: Read works even if the budget has no room to read ahead, or for a whole
// Read.
func TestReadWithLittleBudget(t *testing.T) {
	data := noise(2 << 20)
	for _, budget := range []int64{1, 100 << 10, 600 << 10} {
		r := newRig(t, sftptest.Script{}, 0, usftp.WithMaxInFlight(budget))
		r.server.Files.WriteFile("/f", data)
		for _, size := range []int{1000, 64 << 10, 700 << 10} {
			f := must[*usftp.File](t)(r.Open("/f"))
			for total := 0; total < len(data); {
				p := make([]byte, size)
				n := must[int](t)(f.Read(p))
				if n != min(size, len(data)-total) || !bytes.Equal(p[:n], data[total:total+n]) {
					t.Fatalf("budget %d: a Read of %d at %d gave %d", budget, size, total, n)
				}
				total += n
			}
			ok(t, f.Close())
		}
	}
}

// TestReadIsCancelledAndClosed: a Read that waits ends with its context and with the file, and what
// was read ahead does not count any more then.
func TestReadIsCancelledAndClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate, budget := new(sftptest.Gate), usftp.NewBudget(64<<20)
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead, From: 2 << 20,
			To: 1 << 40, Do: sftptest.Hold(gate)}}}, 0, usftp.WithBudget(budget))
		data := noise(3 << 20)
		r.server.Files.WriteFile("/f", data)
		f := must[*usftp.File](t)(r.Open("/f"))
		p := make([]byte, 100<<10)
		n := 0
		for n < 900<<10 {
			n += must[int](t)(f.Read(p))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rest := make([]byte, 2<<20)
		got, err := io.ReadFull(f.WithContext(ctx), rest)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(got, err)
		}
		if !bytes.Equal(rest[:got], data[n:n+got]) {
			t.Error("the data before differs")
		}
		ended := make(chan error)
		go func() { _, err := f.Read(p); ended <- err }()
		synctest.Wait()
		ok(t, f.Close())
		if err := <-ended; !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
		gate.Open()
		synctest.Wait()
		if n := budget.InFlight(); n != 0 {
			t.Errorf("%d bytes still count as in flight", n)
		}
	})
}

// TestRandomUse: a file with both kinds of buffering behaves like one in memory, whatever is done
// to it.
func TestRandomUse(t *testing.T) {
	for seed := range uint64(16) {
		rng := rand.New(rand.NewPCG(seed, 9))
		script := sftptest.Script{Seed: seed + 1}
		switch seed % 4 {
		case 1:
			script.ShortReads = 1 + rng.IntN(5000)
		case 2:
			script.RandomReads = true
		case 3:
			script.Reorder = 1 + rng.IntN(4)
		}
		r := newRig(t, script, 0, usftp.WithWriteBehind(1<<20),
			usftp.WithMaxPacket(512+rng.IntN(3000)))
		model := noise(20_000)
		r.server.Files.WriteFile("/f", model)
		model = slices.Clone(model)
		f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
		g := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
		off := 0
		grow := func(size int) {
			if size > len(model) {
				model = append(model, make([]byte, size-len(model))...)
			}
		}
		for step := range 300 {
			size := rng.IntN(4000)
			switch op := rng.IntN(20); {
			case op < 10:
				p := make([]byte, 1+size)
				n, err := io.ReadFull(f, p)
				want := model[min(off, len(model)):min(off+len(p), len(model))]
				if !bytes.Equal(p[:n], want) || (n < len(p)) != (err != nil) {
					t.Fatalf("seed %d, step %d: Read at %d: %d, %v, want %d", seed, step, off, n,
						err, len(want))
				}
				off += n
			case op < 15:
				data := noise(1 + size)
				if n, err := f.Write(data); n != len(data) || err != nil {
					t.Fatal(n, err)
				}
				grow(off + len(data))
				copy(model[off:], data)
				off += len(data)
			case op < 16:
				off = rng.IntN(len(model) + 1)
				must[int64](t)(f.Seek(int64(off), io.SeekStart))
			case op < 17:
				at := rng.IntN(len(model) + 1)
				data := noise(1 + size)
				ok(t, f.Sync())
				must[int](t)(g.WriteAt(data, int64(at)))
				grow(at + len(data))
				copy(model[at:], data)
			case op < 18:
				n := rng.IntN(len(model) + 100)
				ok(t, f.Truncate(int64(n)))
				grow(n)
				model = model[:n]
			case op < 19:
				if info := must[fs.FileInfo](t)(f.Stat()); info.Size() != int64(len(model)) {
					t.Fatalf("seed %d: size %d, want %d", seed, info.Size(), len(model))
				}
			default:
				end := must[int64](t)(f.Seek(0, io.SeekEnd))
				if off = len(model); int(end) != off {
					t.Fatalf("seed %d: the end is at %d, want %d", seed, end, off)
				}
			}
			if len(model) > 60_000 {
				ok(t, f.Truncate(100))
				model = model[:100]
			}
		}
		ok(t, f.Close())
		if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); !bytes.Equal(got, model) {
			t.Errorf("seed %d: the file differs", seed)
		}
	}
}
