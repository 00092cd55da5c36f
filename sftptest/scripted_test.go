package sftptest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/wire"
)

// scripted runs a test of a script in a bubble, with a client connected over a link without delay.
func scripted(t *testing.T, script Script, test func(*Scripted, *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(t, script)
		server.Files.WriteFile("/file", []byte("0123456789"))
		test(server, newKit(t, server.Dial(LinkConfig{})))
	})
}

// want compares a string on one line.
func want(t testing.TB, what string, got any, want string) {
	t.Helper()
	if fmt.Sprint(got) != want {
		t.Errorf("%s: %v, want %s", what, got, want)
	}
}

// one returns the outcome of one READ.
func (k *kit) one(handle []byte, offset uint64, length uint32) string {
	k.Helper()
	r := k.ask(wire.Read{Handle: handle, Offset: offset, Length: length})
	var m wire.Data
	if r.Type == wire.TypeData && m.Parse(r.Body) == nil {
		return fmt.Sprintf("%q", m.Data)
	}
	code, _ := r.Code()
	return code.String()
}

func TestScriptReads(t *testing.T) {
	scripted(t, Script{ShortReads: 3}, func(_ *Scripted, k *kit) {
		h := k.open("/file", wire.OpenRead)
		want(t, "a READ of 5 where 3 are the most", k.one(h, 1, 5), `"123"`)
	})
	scripted(t, Script{RandomReads: true, Seed: 3}, func(server *Scripted, k *kit) {
		server.Files.WriteFile("/large", make([]byte, 100_000))
		h := k.open("/large", wire.OpenRead)
		if n := len(k.read(h, 0, 100_000)); n != 100_000 {
			t.Errorf("random reads gave %d bytes in all", n)
		}
		if n := len(server.Requests(wire.TypeRead)); n < 3 {
			t.Errorf("100,000 bytes came in %d replies", n)
		}
	})
	scripted(t, Script{FalseEOFAt: 4, FalseEOFTimes: 2}, func(_ *Scripted, k *kit) {
		h := k.open("/file", wire.OpenRead)
		want(t, "READ across", k.one(h, 0, 10), `"0123"`)
		want(t, "READ behind", k.one(h, 5, 10), `"56789"`)
		want(t, "READ at", k.one(h, 4, 10), "end of file")
		want(t, "READ at, again", k.one(h, 4, 10), "end of file")
		want(t, "READ at, the third time", k.one(h, 4, 10), `"456789"`)
		want(t, "READ across, after that", k.one(h, 0, 10), `"0123456789"`)
	})
	scripted(t, Script{SequentialReads: true}, func(_ *Scripted, k *kit) {
		h := k.open("/file", wire.OpenRead)
		want(t, "first READ", k.one(h, 0, 4), `"0123"`)
		want(t, "READ elsewhere", k.one(h, 5, 4), "failure")
		want(t, "READ further", k.one(h, 4, 4), `"4567"`)
	})
	scripted(t, Script{ReadOnce: true}, func(_ *Scripted, k *kit) {
		k.closeHandle(k.open("/file", wire.OpenRead)) // opening alone is not reading
		h := k.open("/file", wire.OpenRead)
		want(t, "READ", k.one(h, 0, 10), `"0123456789"`)
		want(t, "READ again", k.one(h, 0, 10), `"0123456789"`)
		k.code(wire.Open{Path: "/file", Flags: wire.OpenRead}, wire.NoSuchFile)
	})
}

func TestScriptWrites(t *testing.T) {
	scripted(t, Script{NoReadWrite: true}, func(_ *Scripted, k *kit) {
		k.code(wire.Open{Path: "/file", Flags: wire.OpenRead | wire.OpenWrite},
			wire.PermissionDenied)
		k.closeHandle(k.open("/file", wire.OpenWrite))
		k.closeHandle(k.open("/file", wire.OpenRead))
	})
	scripted(t, Script{SequentialWrites: true}, func(server *Scripted, k *kit) {
		h := k.open("/new", create)
		k.write(h, 0, "abc")
		k.code(wire.Write{Handle: h, Offset: 4, Data: []byte("x")}, wire.Failure)
		k.write(h, 3, "def")
		k.closeHandle(h)
		h = k.open("/new", wire.OpenWrite)
		k.code(wire.Write{Handle: h, Offset: 5, Data: []byte("x")}, wire.Failure)
		k.write(h, 6, "ghi")
		k.wantContents("/new", "abcdefghi")
	})
	scripted(t, Script{OneWrite: true}, func(_ *Scripted, k *kit) {
		h := k.open("/new", create)
		elapsed(t, ms, "a WRITE", func() { k.write(h, 0, "abc") })
		k.write(h, 3, "def")
		k.Send(wire.Write{Handle: h, Offset: 6, Data: []byte("g")}.Append(nil, 100),
			wire.Write{Handle: h, Offset: 7, Data: []byte("h")}.Append(nil, 101))
		r, _ := k.Receive()
		want(t, "the WRITE that came too early", r, "STATUS id=101 failure")
		r, _ = k.Receive()
		want(t, "the WRITE before it", r, "STATUS id=100 success")
		k.wantContents("/new", "abcdefg")
	})
	scripted(t, Script{FullAt: 8}, func(_ *Scripted, k *kit) {
		statvfs := wire.ExtendedPath{Name: wire.ExtStatVFS, Path: "/"}
		if m := extendedReply[wire.StatVFSReply](k, statvfs); m.BlocksAvailable == 0 {
			t.Errorf("full before anything was written: %+v", m)
		}
		h := k.open("/new", create)
		k.write(h, 0, "01234")
		k.code(wire.Write{Handle: h, Offset: 5, Data: []byte("56789")}, wire.Failure)
		k.code(wire.Write{Handle: h, Offset: 10, Data: []byte("x")}, wire.Failure)
		k.wantContents("/new", "01234567")
		if m := extendedReply[wire.StatVFSReply](k, statvfs); m.BlocksAvailable != 0 {
			t.Errorf("not full: %+v", m)
		}
	})
	scripted(t, Script{StatVFS: &wire.StatVFSReply{FragmentSize: 512, BlocksAvailable: 7}},
		func(_ *Scripted, k *kit) {
			m := extendedReply[wire.StatVFSReply](k,
				wire.ExtendedPath{Name: wire.ExtStatVFS, Path: "/"})
			if m.FragmentSize != 512 || m.BlocksAvailable != 7 {
				t.Errorf("statvfs answered %+v", m)
			}
		})
	scripted(t, Script{UploadPerHandle: true}, func(_ *Scripted, k *kit) {
		first, second := k.open("/file", wire.OpenWrite), k.open("/file", wire.OpenWrite)
		k.write(first, 0, "first")
		k.write(second, 5, "other")
		k.wantContents("/file", "0123456789")
		k.closeHandle(first)
		k.wantContents("/file", "first56789")
		k.closeHandle(second)
		k.wantContents("/file", "01234other")
	})
	scripted(t, Script{}, func(_ *Scripted, k *kit) { // no memory for an absurd offset
		h := k.open("/new", create)
		for _, offset := range []uint64{1 << 40, 1<<64 - 1} {
			k.code(wire.Write{Handle: h, Offset: offset, Data: []byte("xy")}, wire.Failure)
		}
	})
}

func TestScriptLimits(t *testing.T) {
	limits := wire.LimitsReply{MaxPacket: 2000, MaxRead: 4, MaxWrite: 5, MaxOpenHandles: 1}
	scripted(t, Script{Limits: &limits}, func(server *Scripted, k *kit) {
		if m := extendedReply[wire.LimitsReply](k, wire.Limits{}); m != limits {
			t.Errorf("limits answered %+v", m)
		}
		h := k.open("/file", wire.OpenRead|wire.OpenWrite)
		want(t, "a long READ", k.one(h, 0, 100), `"0123"`)
		k.write(h, 0, "abcde")
		k.code(wire.Write{Handle: h, Data: []byte("abcdef")}, wire.Failure)
		k.code(wire.Open{Path: "/file", Flags: wire.OpenRead}, wire.Failure)
		k.code(onPath(wire.TypeOpendir, "/"), wire.Failure)
		if n := server.OpenHandles(); n != 1 {
			t.Errorf("%d open handles, want 1", n)
		}
		k.closeHandle(h)
		k.closeHandle(k.open("/file", wire.OpenRead))
		_ = k.Send(wire.Write{Handle: h, Data: make([]byte, 2000)}.Append(nil, 9))
		if r, err := k.Receive(); err != io.EOF {
			t.Errorf("a packet over the limit: %v, %v, want EOF", r, err)
		}
		synctest.Wait()
		if n := server.OpenHandles() + server.Streams(); n != 0 {
			t.Errorf("handles and streams after the end: %d", n)
		}
	})
}

func TestScriptListings(t *testing.T) {
	scripted(t, Script{ReaddirNames: 1 << 30}, func(server *Scripted, k *kit) {
		const count = 40_000
		for i := range count {
			server.Files.WriteFile(fmt.Sprintf("/d/%05d%s", i, strings.Repeat("n", 50)), nil)
		}
		var h wire.Handle
		k.expect(onPath(wire.TypeOpendir, "/d"), wire.TypeHandle, &h)
		r := k.ask(wire.HandleRequest{Type: wire.TypeReaddir, Handle: h.Handle})
		var names wire.Names
		if err := names.Parse(r.Body); err != nil || len(names.Names) != count+2 ||
			len(r.Body) < 7<<20 {
			t.Errorf("NAME of %d bytes with %d names, %v", len(r.Body), len(names.Names), err)
		}
	})
	scripted(t, Script{EndlessReaddir: true, ReaddirNames: 2}, func(_ *Scripted, k *kit) {
		var h wire.Handle
		k.expect(onPath(wire.TypeOpendir, "/"), wire.TypeHandle, &h)
		for i := range 100 {
			if r := k.ask(wire.HandleRequest{Type: wire.TypeReaddir,
				Handle: h.Handle}); r.Type != wire.TypeName {
				t.Fatalf("READDIR %d of an endless listing: %v", i, r)
			}
		}
	})
}

func TestScriptAnswers(t *testing.T) {
	scripted(t, Script{Refuse: []wire.Type{wire.TypeFstat, wire.TypeSetstat}},
		func(_ *Scripted, k *kit) {
			h := k.open("/file", wire.OpenRead)
			k.code(wire.HandleRequest{Type: wire.TypeFstat, Handle: h}, wire.OpUnsupported)
			k.code(wire.PathAttrs{Type: wire.TypeSetstat, Path: "/file"}, wire.OpUnsupported)
			k.stat("/file")
		})
	scripted(t, Script{HideAttrs: wire.AttrSize | wire.AttrUIDGID}, func(_ *Scripted, k *kit) {
		if a := k.stat("/file"); a.Flags != wire.AttrPermissions|wire.AttrACModTime {
			t.Errorf("STAT with flags %#x", a.Flags)
		}
		if list := k.list("/"); list[0].Attrs.Flags != wire.AttrPermissions|wire.AttrACModTime {
			t.Errorf("NAME with flags %#x", list[0].Attrs.Flags)
		}
	})
	for _, c := range []struct {
		script Script
		body   string
	}{
		{Script{}, "\x00\x00\x00\x04\x00\x00\x00\x07failure\x00\x00\x00\x00"},
		{Script{NoMessages: true}, "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00"},
		{Script{BareStatus: true}, "\x00\x00\x00\x04"},
		{Script{RichCodes: true},
			"\x00\x00\x00\x0b\x00\x00\x00\x13file already exists\x00\x00\x00\x00"},
	} {
		scripted(t, c.script, func(_ *Scripted, k *kit) {
			if r := k.ask(mkdir("/file")); string(r.Body) != c.body {
				t.Errorf("%v: STATUS is %q, want %q", c.script, r.Body, c.body)
			}
		})
	}
	scripted(t, Script{HandleSize: 300}, func(_ *Scripted, k *kit) {
		r := k.ask(wire.Open{Path: "/file", Flags: wire.OpenRead})
		if len(r.Body) != 304 {
			t.Errorf("HANDLE of %d bytes, want 304", len(r.Body))
		}
	})
	scripted(t, Script{Extensions: []wire.ExtensionPair{}}, func(_ *Scripted, k *kit) {
		k.code(wire.Limits{}, wire.OpUnsupported)
	})
}

func TestScriptGreets(t *testing.T) {
	talk := func(script Script) (all string) {
		synctest.Test(t, func(t *testing.T) {
			server := NewServer(t, script)
			client := server.Dial(LinkConfig{})
			if init := string(wire.Init{Version: 3}.Append(nil)); script.GreetingOnly {
				io.WriteString(client, init) // perhaps too late
			} else {
				mustWrite(t, client, init)
			}
			synctest.Wait()
			buf := make([]byte, 1000)
			n, _ := client.Read(buf)
			all = string(buf[:n])
			if script.GreetingOnly {
				mustFail(t, client, io.EOF)
			}
			client.Close()
		})
		return all
	}
	version := "\x00\x00\x00\x05\x02\x00\x00\x00\x03"
	none := []wire.ExtensionPair{}
	want(t, "only text", talk(Script{Greeting: "This account is not available.\n",
		GreetingOnly: true}), "This account is not available.\n")
	want(t, "text, then VERSION", talk(Script{Greeting: "Welcome\n", Extensions: none}),
		"Welcome\n"+version)
	want(t, "another version", talk(Script{Version: 6, Extensions: none}),
		strings.Replace(version, "\x03", "\x06", 1))
	want(t, "nothing at all", talk(Script{GreetingOnly: true}), "")
}

func TestScriptReorders(t *testing.T) {
	order := func(seed uint64) (ids []uint32) {
		scripted(t, Script{Reorder: 8, Seed: seed}, func(_ *Scripted, k *kit) {
			for i := range 20 {
				_ = k.Send(onPath(wire.TypeStat, "/file").Append(nil, uint32(100+i)))
			}
			// Two windows of eight go out at once, the four that remain when nothing more comes.
			elapsed(t, 0, "two windows", func() {
				for range 16 {
					r, _ := k.Receive()
					ids = append(ids, r.ID)
				}
			})
			elapsed(t, ms, "the rest", func() {
				for range 4 {
					r, _ := k.Receive()
					ids = append(ids, r.ID)
				}
			})
		})
		return ids
	}
	first, again, other := order(1), order(1), order(2)
	if fmt.Sprint(first) != fmt.Sprint(again) || fmt.Sprint(first) == fmt.Sprint(other) {
		t.Errorf("seed 1 gave %v, then %v; seed 2 gave %v", first, again, other)
	}
	sorted := true
	for i, id := range first {
		sorted = sorted && id == uint32(100+i)
		if distance := int(id) - 100 - i; distance > 7 || distance < -7 {
			t.Errorf("reply %d came at place %d", id, i)
		}
	}
	if sorted {
		t.Errorf("nothing was reordered: %v", first)
	}
}

func TestScriptWork(t *testing.T) {
	scripted(t, Script{Work: 10 * ms}, func(_ *Scripted, k *kit) {
		_ = k.Send(onPath(wire.TypeStat, "/file").Append(nil, 1),
			onPath(wire.TypeStat, "/file").Append(nil, 2))
		elapsed(t, 20*ms, "two requests", func() {
			_, _ = k.Receive()
			_, _ = k.Receive()
		})
	})
}

// A server whose replies are not read stops reading requests, like servers with limited memory.
func TestScriptedStopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(t, Script{})
		server.Files.WriteFile("/large", make([]byte, wire.MaxData))
		k := newKit(t, server.Dial(LinkConfig{Buffer: 1000}))
		h := k.open("/large", wire.OpenRead)
		const count = 100
		go func() {
			for i := range count {
				_ = k.Send(wire.Read{Handle: h, Length: wire.MaxData}.Append(nil, uint32(i)))
			}
		}()
		synctest.Wait()
		if n := len(server.Requests(wire.TypeRead)); n < 30 || n > 40 {
			t.Errorf("the server took %d requests of 255 KiB while no reply was read", n)
		}
		for i := range count {
			if r, err := k.Receive(); err != nil || int(r.ID) != i {
				t.Fatalf("reply %d: %v, %v", i, r, err)
			}
		}
	})
}

func TestScriptedServesManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(t, Script{})
		first, second := newKit(t, server.Dial(LinkConfig{})), newKit(t, server.Dial(LinkConfig{}))
		first.create("/a", "hello")
		second.wantContents("/a", "hello")
		second.fails(wire.HandleRequest{Type: wire.TypeClose,
			Handle: first.open("/a", wire.OpenRead)})
		want(t, "streams", server.Streams(), "2")
		want(t, "the stream of the last request",
			server.Requests()[len(server.Requests())-2].Stream, "1")
		server.Close()
		if r, err := first.Receive(); err != io.EOF {
			t.Errorf("after Close: %v, %v", r, err)
		}
		mustFail(t, server.Dial(LinkConfig{}), io.EOF)
	})
}

func TestServeSaysWhyItEnded(t *testing.T) {
	serve := func(send string) (err error) {
		synctest.Test(t, func(t *testing.T) {
			client, stream := NewLink(LinkConfig{})
			mustWrite(t, client, send)
			client.CloseWrite()
			err = NewServer(t, Script{}).Serve(stream)
		})
		return err
	}
	init := string(wire.Init{Version: 3}.Append(nil))
	if err := serve(init); err != nil {
		t.Errorf("a stream that ends well: %v", err)
	}
	if err := serve(init + "\x00\x00\x00\x05\x11\x00\x00\x00\x01"); !errors.Is(err, wire.ErrShort) {
		t.Errorf("a STAT without a path: %v", err)
	}
	if err := serve(init + "\x00\x00"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a length: %v", err)
	}
	if err := serve("\x00\x00\x00\x05\x11\x00\x00\x00\x01"); err == nil {
		t.Error("a STAT before INIT is served")
	}
}

// A script that hangs up ends a socket and a pipe of the system as well as a link.
func TestServeEndsWell(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stream, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, client, string(wire.Init{Version: 3}.Append(nil)))
	server := NewServer(t, Script{Faults: []Fault{{On: wire.TypeInit, Do: LastReply()}}})
	if err := server.Serve(stream); err != nil {
		t.Error(err)
	}
}
