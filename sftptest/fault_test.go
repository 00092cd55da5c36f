package sftptest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/wire"
)

// afterFault makes two STAT requests, the first spoiled, and returns everything that arrives within
// a minute.
func afterFault(t *testing.T, do Action) string {
	t.Helper()
	var heard []string
	scripted(t, Script{Faults: []Fault{{On: wire.TypeStat, Times: 1, Do: do}}},
		func(server *Scripted, k *kit) {
			time.AfterFunc(20*time.Second, func() { k.Close() })
			stat := onPath(wire.TypeStat, "/file")
			_ = k.Send(stat.Append(nil, 1), stat.Append(nil, 2))
			for {
				r, err := k.Receive()
				switch {
				case err == io.ErrClosedPipe:
					heard = append(heard, "silence")
				case err != nil:
					heard = append(heard, err.Error())
				default:
					heard = append(heard, r.String())
					continue
				}
				break
			}
		})
	return strings.Join(heard, "; ")
}

func TestActions(t *testing.T) {
	const size = 41 // of an ATTRS packet with its length
	attrs := "ATTRS id=%d, 32 bytes"
	first, second := fmt.Sprintf(attrs, 1), fmt.Sprintf(attrs, 2)
	for _, c := range []struct {
		do   Action
		want string
	}{
		{Action{}, first + "; " + second + "; silence"},
		{Refuse(wire.PermissionDenied, "no"),
			"STATUS id=1 permission denied; " + second + "; silence"},
		{Fail(wire.Failure, ""), "STATUS id=1 failure; " + second + "; silence"},
		{ZeroData(), "DATA id=1, 4 bytes; " + second + "; silence"},
		{NoNames(), "NAME id=1, 4 bytes; " + second + "; silence"},
		{ReplyType(wire.TypeHandle), "HANDLE id=1, 5 bytes; " + second + "; silence"},
		{ReplyType(wire.TypeStatus), "STATUS id=1 success; " + second + "; silence"},
		{ReplyType(wire.TypeAttrs), "ATTRS id=1, 4 bytes; " + second + "; silence"},
		{ReplyType(wire.TypeVersion), "VERSION id=0, 4 bytes; " + second + "; silence"},
		{ReplyType(99), "packet type 99 id=1, 0 bytes; " + second + "; silence"},
		{Drop(), second + "; silence"},
		{Silence(), "silence"},
		{Hangup(), "EOF"},
		{LastReply(), first + "; EOF"},
		{Truncate(10), "unexpected EOF"},
		{Truncate(0), "EOF"},
		{Truncate(1000), first + "; EOF"},
		{Length(size), "silence"},
		{Length(size - 5), "ATTRS id=1, 31 bytes; silence"},
		{Length(1 << 31), "sftptest: packet of 2147483648 bytes"},
		{UnknownID(), "ATTRS id=2147483649, 32 bytes; " + second + "; silence"},
		{Repeat(), first + "; " + first + "; " + second + "; silence"},
		{ReplyBytes("\x00\x00\x00\x05\x65\x00\x00\x00\x09"),
			"STATUS id=9, 0 bytes; " + second + "; silence"},
		{Delay(time.Second), second + "; " + first + "; silence"},
		{Garble(1), first + "; " + second + "; silence"},
	} {
		if got := afterFault(t, c.do); got != c.want {
			t.Errorf("%v: heard %s, want %s", c.do, got, c.want)
		}
	}
}

func TestGarbleChangesTheBody(t *testing.T) {
	garbled := func(seed uint64) (body string) {
		scripted(t, Script{Faults: []Fault{{On: wire.TypeStat, Do: Garble(seed)}}},
			func(_ *Scripted, k *kit) {
				body = string(k.ask(onPath(wire.TypeStat, "/file")).Body)
			})
		return body
	}
	bodies := make(map[string]bool)
	for seed := range uint64(10) {
		bodies[garbled(seed)] = true
		bodies[garbled(seed)] = true // the same again
	}
	if len(bodies) < 5 || len(bodies) > 10 {
		t.Errorf("10 seeds gave %d bodies", len(bodies))
	}
}

func TestFailedRequestsAreCarriedOutAndRefusedAreNot(t *testing.T) {
	scripted(t, Script{Faults: []Fault{
		{On: wire.TypeRemove, Path: "/file", Do: Fail(wire.Failure, "")},
		{On: wire.TypeMkdir, Do: Refuse(wire.OK, "")},
	}}, func(server *Scripted, k *kit) {
		k.code(onPath(wire.TypeRemove, "/file"), wire.Failure)
		k.ok(mkdir("/dir"))
		if server.Files.Exists("/file") || server.Files.Exists("/dir") {
			t.Errorf("there is %v", server.Files.List())
		}
	})
}

func TestFaultChooses(t *testing.T) {
	spoiled := Refuse(wire.BadMessage, "")
	scripted(t, Script{Faults: []Fault{
		{On: wire.TypeRead, Path: "/file", From: 4, To: 6, Do: spoiled},
		{On: wire.TypeStat, Skip: 2, Times: 2, Do: spoiled},
		{On: wire.TypeExtended, Extension: wire.ExtStatVFS, Do: spoiled},
	}}, func(server *Scripted, k *kit) {
		server.Files.WriteFile("/other", []byte("0123456789"))
		h, other := k.open("/file", wire.OpenRead), k.open("/other", wire.OpenRead)
		want(t, "in front", k.one(h, 0, 4), `"0123"`)
		want(t, "touching", k.one(h, 0, 5), "bad message")
		want(t, "within", k.one(h, 5, 1), "bad message")
		want(t, "behind", k.one(h, 6, 9), `"6789"`)
		want(t, "another file", k.one(other, 4, 2), `"45"`)
		var types []wire.Type
		for range 6 {
			types = append(types, k.ask(onPath(wire.TypeStat, "/file")).Type)
		}
		want(t, "six STATs", types, "[ATTRS ATTRS STATUS STATUS ATTRS ATTRS]")
		k.code(wire.ExtendedPath{Name: wire.ExtStatVFS, Path: "/"}, wire.BadMessage)
		k.name(wire.ExtendedPath{Name: wire.ExtExpandPath, Path: "/"})
		server.AddFaults(Fault{Do: Hangup()}) // any type
		if _, err := k.Ask(mkdir("/x")); err != io.EOF {
			t.Errorf("after a hangup: %v", err)
		}
	})
}

func TestSilenceFromTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := NewServer(t, Script{Faults: []Fault{{On: wire.TypeInit,
			Do: Silence()}}}).Dial(LinkConfig{})
		mustWrite(t, client, string(wire.Init{Version: 3}.Append(nil)))
		time.AfterFunc(time.Hour, func() { client.Close() })
		elapsed(t, time.Hour, "waiting for VERSION",
			func() { mustFail(t, client, io.ErrClosedPipe) })
	})
}

func TestFaultsCombine(t *testing.T) {
	got := afterFault(t, Action{})
	scripted(t, Script{Faults: []Fault{
		{On: wire.TypeStat, Times: 1, Do: Repeat()},
		{On: wire.TypeStat, Times: 1, Do: UnknownID()},
		{On: wire.TypeStat, Times: 1, Do: Delay(time.Second)},
	}}, func(_ *Scripted, k *kit) {
		_ = k.Send(onPath(wire.TypeStat, "/file").Append(nil, 1))
		elapsed(t, time.Second, "the delayed replies", func() {
			for range 2 {
				r, err := k.Receive()
				if r.ID != 1<<31+1 || err != nil {
					t.Errorf("received %v, %v; without faults %s", r, err, got)
				}
			}
		})
	})
}

func TestResizeWhileRead(t *testing.T) {
	scripted(t, Script{Faults: []Fault{
		{On: wire.TypeRead, Skip: 1, Times: 1, Do: Resize("/file", 5)},
		{On: wire.TypeRead, Skip: 2, Times: 1, Do: Resize("/file", 7)},
	}}, func(_ *Scripted, k *kit) {
		h := k.open("/file", wire.OpenRead)
		want(t, "before", k.one(h, 0, 100), `"0123456789"`)
		want(t, "shrunk", k.one(h, 0, 100), `"01234"`)
		want(t, "grown", k.one(h, 4, 100), `"4\x00\x00"`)
	})
}

func TestIntercept(t *testing.T) {
	var seen []string
	script := Script{Intercept: func(r Request) []Action {
		seen = append(seen, r.Type.String())
		if r.Path == "/secret" {
			return []Action{Refuse(wire.PermissionDenied, "secret")}
		}
		return nil
	}, Faults: []Fault{{On: wire.TypeMkdir,
		Do: Call("note", func(r Request) { seen = append(seen, "called "+r.Path) })}}}
	scripted(t, script, func(_ *Scripted, k *kit) {
		k.code(onPath(wire.TypeStat, "/secret"), wire.PermissionDenied)
		k.ok(mkdir("/d"))
	})
	want(t, "seen", seen, "[INIT STAT MKDIR called /d]")
}

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate Gate
		server := NewServer(t, Script{Faults: []Fault{{On: wire.TypeStat, Do: Hold(&gate)}}})
		k := newKit(t, server.Dial(LinkConfig{}))
		for id := range uint32(5) {
			_ = k.Send(onPath(wire.TypeStat, "/").Append(nil, id))
		}
		gate.Wait(5)
		k.ok(mkdir("/d")) // overtakes
		want(t, "held", gate.Held(), "5")
		next := func() string {
			r, err := k.Receive()
			return fmt.Sprint(r.ID, err)
		}
		gate.Release(1)
		want(t, "the oldest", next(), "0 <nil>")
		gate.ReleaseNewest(2)
		want(t, "the newest", next(), "4 <nil>")
		want(t, "the newest but one", next(), "3 <nil>")
		gate.Open()
		want(t, "the rest", next()+" "+next(), "1 <nil> 2 <nil>")
		k.stat("/") // an open gate holds nothing
		want(t, "held at the end", gate.Held(), "0")
	})
}

func TestGateLeftClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate Gate
		server := NewScripted(Script{Faults: []Fault{{On: wire.TypeStat, Do: Hold(&gate)}}})
		k := newKit(t, server.Dial(LinkConfig{}))
		_ = k.Send(onPath(wire.TypeStat, "/").Append(nil, 1))
		gate.Wait(1)
		server.Close()
		gate.Open() // what it held has nowhere to go
		if _, err := k.Receive(); !errors.Is(err, io.EOF) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestRecipes(t *testing.T) {
	var gate Gate
	script := Script{ShortReads: 7, NoMessages: true, Greeting: "hi\n", Work: time.Second,
		Refuse: []wire.Type{wire.TypeFstat, 77},
		Limits: &wire.LimitsReply{MaxRead: 5}, Extensions: []wire.ExtensionPair{{Name: "x",
			Data: "1"}},
		Faults: []Fault{{On: wire.TypeExtendedReply, Path: "/a b", Skip: 3, Do: Truncate(10)},
			{Do: Hold(&gate)}}}
	want(t, "recipe", script, `sftptest.Script{Greeting: "hi\n", `+
		`Extensions: []wire.ExtensionPair{wire.ExtensionPair{Name: "x", Data: "1"}}, `+
		`Limits: &wire.LimitsReply{MaxRead: 5}, ShortReads: 7, Refuse: []wire.Type{wire.TypeFstat, wire.Type(77)}, NoMessages: true, `+
		`Work: 1000000000, Faults: []sftptest.Fault{{On: wire.TypeExtendedReply, Path: "/a b", Skip: 3, Do: sftptest.Truncate(10)}, `+
		`{Do: sftptest.Hold(gate)}}}`)
	want(t, "fault", Fault{On: wire.TypeRead, Do: Refuse(wire.EOF, "")},
		`sftptest.Fault{On: wire.TypeRead, Do: sftptest.Refuse(wire.Code(1 /* end of file */), "")}`)
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], 1)
	want(t, "bytes", ReplyBytes(string(length[:])), `sftptest.ReplyBytes("\x00\x00\x00\x01")`)
}
