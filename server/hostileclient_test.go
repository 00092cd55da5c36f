package server_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// An adversary misbehaves in a session of its own beside others.
type adversary struct {
	*raw
	pool *server.Pool
}

// refused fails unless a request is answered with this status.
func (a *adversary) refused(code wire.Code, m message) {
	a.t.Helper()
	if got := a.do(m).status(a.t); got.Code != code {
		a.t.Errorf("%.100v: %v %q, want %v", m, got.Code, got.Message, code)
	}
}

// flood sends a request as often as it can, until the server takes no more, and reads nothing.
func (a *adversary) flood(m message) {
	a.t.Helper()
	b := m.Append(nil, 1)
	sent := make(chan int)
	go func() {
		n := 0
		for n < 1_000_000 {
			if _, err := a.conn.Write(b); err != nil {
				break
			}
			n++
		}
		sent <- n
	}()
	synctest.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
	if out := a.pool.Out(); out > 4<<20 {
		a.t.Errorf("%d bytes are out for a client that takes nothing", out)
	}
	a.conn.Close()
	if n := <-sent; n == 1_000_000 {
		a.t.Error("the server took everything")
	}
}

// burst sends requests in large pieces and expects each to be answered with this status.
func (a *adversary) burst(count int, code wire.Code, request func(i int) message) {
	a.t.Helper()
	const piece = 1000
	go func() {
		for i := 0; i < count; {
			var b []byte
			for ; i < count && len(b) < 20*piece; i++ {
				b = request(i).Append(b, uint32(i))
			}
			if _, err := a.conn.Write(b); err != nil {
				a.t.Errorf("after %d requests: %v", i, err)
				return
			}
		}
	}()
	for range count {
		if got := a.receive().status(a.t).Code; got != code {
			a.t.Fatalf("%v, want %v", got, code)
		}
	}
}

func key(n uint32) []byte { return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)} }

// adversaries are the attacks, with what the log must contain afterwards: the message and some
// fields.
var adversaries = map[string]struct {
	act  func(a *adversary)
	log  map[string]string
	ends bool // the server must end the session
}{
	"takes no replies": {func(a *adversary) {
		a.flood(wire.Read{Handle: a.open("/f", wire.OpenRead), Length: wire.MaxData})
	}, nil, true},
	"takes no short replies": {func(a *adversary) { a.flood(stat("/f")) }, nil, true},
	"writes and takes no replies": {func(a *adversary) {
		a.flood(wire.Write{Handle: a.open("/w", create), Data: make([]byte, 200_000)})
	}, nil, true},
	"a million handles that it made up": {func(a *adversary) {
		a.burst(1_000_000, wire.Failure, func(i int) message {
			return wire.HandleRequest{Type: wire.TypeClose, Handle: key(uint32(i) * 2654435761)}
		})
	}, map[string]string{"": "bad request", "request": "close", "error": "invalid handle"}, false},
	"opens without end": {func(a *adversary) {
		for range 16 {
			a.open("/f", wire.OpenRead)
		}
		a.burst(100_000, wire.Failure,
			func(i int) message { return wire.Open{Path: fmt.Sprint("/made", i), Flags: create} })
		a.refused(wire.NoSuchFile, stat("/made7"))
	}, map[string]string{"": "request denied", "by": "limit", "path": "/made0"}, false},
	"a handle that is closed": {func(a *adversary) {
		h, open := a.open("/f", wire.OpenRead), a.open("/w", create)
		a.close(h)
		for _, m := range []message{
			wire.Read{Handle: h, Length: 1}, wire.Write{Handle: h,
				Data: []byte("x")}, wire.Fsetstat{Handle: h},
			wire.HandleRequest{Type: wire.TypeFstat,
				Handle: h}, wire.HandleRequest{Type: wire.TypeReaddir, Handle: h},
			wire.HandleRequest{Type: wire.TypeClose,
				Handle: h}, wire.ExtendedHandle{Name: wire.ExtFsync, Handle: h},
			wire.ExtendedHandle{Name: wire.ExtFstatVFS, Handle: h}, wire.CopyData{FromHandle: h,
				ToHandle: open},
			wire.CopyData{FromHandle: open,
				ToHandle: h}, wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: h,
				Algorithms: "md5"},
			wire.HandleRequest{Type: wire.TypeFstat,
				Handle: nil}, wire.HandleRequest{Type: wire.TypeFstat, Handle: make([]byte, 1000)},
		} {
			a.refused(wire.Failure, m)
		}
	}, map[string]string{"": "bad request", "request": "copy-data",
		"error": "invalid handle"}, false},
	"a handle of the wrong kind": {func(a *adversary) {
		dir, file := a.do(wire.PathRequest{Type: wire.TypeOpendir,
			Path: "/"}).handle(a.t), a.open("/f", wire.OpenRead)
		a.refused(wire.Failure, wire.Read{Handle: dir, Length: 1})
		a.refused(wire.Failure, wire.Write{Handle: dir, Data: []byte("x")})
		a.refused(wire.Failure, wire.Write{Handle: file, Data: []byte("x")})
		a.refused(wire.Failure, wire.HandleRequest{Type: wire.TypeReaddir, Handle: file})
		a.refused(wire.Failure, wire.CopyData{FromHandle: dir, ToHandle: file})
	}, map[string]string{"": "bad request", "request": "readdir", "path": "/f"}, false},
	"numbers at their ends": {func(a *adversary) {
		h := a.open("/w", create|wire.OpenRead)
		for _, offset := range []uint64{math.MaxInt64 - 1, math.MaxInt64, 1 << 63, math.MaxUint64} {
			a.refused(wire.EOF, wire.Read{Handle: h, Offset: offset, Length: math.MaxUint32})
			a.refused(wire.Failure, wire.Write{Handle: a.open("/w", wire.OpenWrite), Offset: offset,
				Data: []byte("xx")})
		}
		for _, size := range []uint64{1 << 63, math.MaxUint64} {
			a.refused(wire.BadMessage, wire.Fsetstat{Handle: h,
				Attrs: wire.Attrs{Flags: wire.AttrSize, Size: size}})
			a.refused(wire.BadMessage, wire.CopyData{FromHandle: h, FromOffset: size, ToHandle: h})
			a.refused(wire.BadMessage, wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: h,
				Algorithms: "md5", Offset: size})
		}
		a.refused(wire.BadMessage, wire.CheckFile{Name: wire.ExtCheckFileName, Target: []byte("/f"),
			Algorithms: "md5", BlockSize: 1})
		a.refused(wire.EOF, wire.CopyData{FromHandle: a.open("/f", wire.OpenRead), Length: 1 << 62,
			ToHandle: h})
	}, map[string]string{"": "bad request", "request": "fsetstat", "path": "/w"}, false},
	"a path of 100,000 bytes": {func(a *adversary) {
		long := "/" + strings.Repeat("x", 100_000)
		for _, m := range []message{stat(long), wire.Open{Path: long, Flags: create},
			wire.Rename{OldPath: "/f", NewPath: long},
			wire.Symlink{First: long, Second: "/l"}, stat(strings.Repeat("/x",
				50_000)), wire.ExtendedPath{Name: wire.ExtExpandPath, Path: "~" + long}} {
			a.refused(wire.BadMessage, m)
		}
	}, map[string]string{"": "bad request", "request": "rename",
		"error": "file name too long"}, false},
	"NUL in a path": {func(a *adversary) {
		for _, m := range []message{stat("/f\x00"), wire.Open{Path: "/f\x00g", Flags: create},
			wire.Symlink{First: "x\x00", Second: "/l"},
			wire.Hardlink{OldPath: "/f", NewPath: "\x00"}} {
			a.refused(wire.BadMessage, m)
		}
	}, map[string]string{"": "bad request", "request": "hardlink",
		"error": "NUL in a file name"}, false},
	"ways out": {func(a *adversary) {
		a.refused(wire.NoSuchFile, stat("/../../outside/secret"))
		a.refused(wire.NoSuchFile, stat("../outside/secret"))
		a.ok(wire.Symlink{First: "../outside/secret", Second: "/out"})
		a.ok(wire.Symlink{First: "/etc/passwd", Second: "/absolute"})
		for _, name := range []string{"/out", "/absolute"} {
			a.refused(wire.PermissionDenied, stat(name))
			a.refused(wire.PermissionDenied, wire.Open{Path: name, Flags: wire.OpenRead})
			a.refused(wire.PermissionDenied, wire.Open{Path: name, Flags: create})
			a.refused(wire.PermissionDenied, wire.PathAttrs{Type: wire.TypeSetstat, Path: name,
				Attrs: wire.Attrs{Flags: wire.AttrSize}})
		}
	}, map[string]string{"": "request denied", "by": "backend", "request": "open",
		"path": "/out"}, false},
	"a string longer than its packet": {func(a *adversary) {
		a.send(body(wire.TypeStat, 1, 0x7f, 0xff, 0xff, 0xff, '/'))
		want(a.t, a.receive().status(a.t).Code, wire.BadMessage)
	}, map[string]string{"": "bad request", "request": "stat"}, false},
	"more attributes than there are": {func(a *adversary) {
		a.send(body(wire.TypeSetstat, 1, 0, 0, 0, 2, '/', 'f', 0x80, 0, 0, 0, 0xff, 0xff, 0xff,
			0xff))
		want(a.t, a.receive().status(a.t).Code, wire.BadMessage)
	}, map[string]string{"": "bad request", "request": "setstat"}, false},
	"a packet of 4 GiB": {func(a *adversary) {
		a.send([]byte{0xff, 0xff, 0xff, 0xff})
		if _, err := a.tryReceive(); err == nil {
			a.t.Error("it was answered")
		}
	}, nil, true},
	"a packet that is cut": {func(a *adversary) {
		a.send(wire.Write{Handle: a.open("/w", create), Data: make([]byte, 200_000)}.Append(nil,
			1)[:100_000])
		a.conn.Close()
	}, nil, true},
}

// TestAdversaries runs each attack beside a session that works normally. Each attacker gets the
// right status or has its session ended, and leaves a line in the log; the other session is not
// affected.
func TestAdversaries(t *testing.T) {
	for name, one := range adversaries {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				top := t.TempDir()
				if name == "ways out" {
					testenv.Symlink(t, "nothing", filepath.Join(t.TempDir(), "link"))
				}
				dir, outside := filepath.Join(top, "served"), filepath.Join(top, "outside")
				for _, d := range []string{dir, outside} {
					if err := os.Mkdir(d, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				secret := filepath.Join(outside, "secret")
				for name, size := range map[string]int{filepath.Join(dir, "f"): wire.MaxData,
					secret: 10} {
					if err := os.WriteFile(name, bytes.Repeat([]byte("s"), size),
						0o644); err != nil {
						t.Fatal(err)
					}
				}
				backend, err := osfs.New(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer backend.Close()
				book, pool := &logBook{}, &server.Pool{}
				bystander := start(t, backend, &server.Options{Pool: pool})
				done := make(chan struct{})
				go func() {
					defer close(done)
					business(t, bystander)
				}()
				a := &adversary{start(t, backend, &server.Options{Pool: pool, MaxHandles: 16,
					Logger: slog.New(book)}), pool}
				one.act(a)
				if err := a.over(); one.ends != (err != nil) {
					t.Errorf("Serve returned %v", err)
				}
				if one.log != nil && book.count(one.log) == 0 {
					t.Errorf("no line with %v in the log:\n%v", one.log,
						book.lines[:min(len(book.lines), 5)])
				}
				if n := len(book.lines); n > 500 {
					t.Errorf("%d lines in the log", n)
				}
				<-done
				business(t, bystander)
				bystander.over()
				synctest.Wait()
				if out := pool.Out(); out != 0 {
					t.Errorf("%d bytes are out after the end", out)
				}
				if text, err := os.ReadFile(secret); err != nil || string(text) != "ssssssssss" {
					t.Errorf("outside there is %q, %v", text, err)
				}
			})
		})
	}
}

// business is what an honest client does. It runs on a goroutine of its own and so must not call
// Fatal.
func business(t *testing.T, c *raw) {
	for i := range 20 {
		text := strings.Repeat(fmt.Sprint("text ", i, " "), 1000)
		c.put("/mine", text)
		if got := c.get("/mine"); got != text {
			t.Errorf("an honest client reads %d bytes that are not what it wrote", len(got))
			return
		}
		c.ok(wire.PosixRename{OldPath: "/mine", NewPath: "/renamed"})
		if size := c.stat("/renamed").Size; size != uint64(len(text)) {
			t.Errorf("an honest client sees %d bytes of %d", size, len(text))
			return
		}
		c.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/renamed"})
	}
}
