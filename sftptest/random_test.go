package sftptest

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/wire"
)

// With every random server, everything that a client may rely on works; the client in this test
// relies on nothing else.
func TestRandomScriptsWork(t *testing.T) {
	for seed := range uint64(60) {
		link, script := RandomLink(seed), RandomScript(seed)
		if script.String() != RandomScript(seed).String() || link != RandomLink(seed) {
			t.Fatalf("seed %d gives two recipes", seed)
		}
		synctest.Test(t, func(t *testing.T) {
			server := NewServer(t, script)
			k := &kit{TB: t, Raw: NewRaw(server.Dial(link)), dir: "/"}
			if _, err := k.Init(); err != nil {
				t.Fatalf("%v, %v: %v", link, script, err)
			}
			data := make([]byte, 20_000)
			for i := range data {
				data[i] = byte(i * i >> 3)
			}
			k.create("/a", string(data))
			k.wantContents("/a", string(data))
			if list := k.list("/"); len(list) == 0 {
				t.Error("nothing is listed")
			}
			if t.Failed() {
				t.Logf("%v, %v", link, script)
			}
			k.Close()
		})
	}
}

// Whatever a fault does, the server ends when its client is gone.
func TestRandomFaultsEnd(t *testing.T) {
	actions := make(map[string]bool)
	for seed := range uint64(300) {
		fault := RandomFault(seed)
		fault.Skip = 0
		actions[fault.Do.String()[:13]] = true
		synctest.Test(t, func(t *testing.T) {
			server := NewServer(t, Script{Faults: []Fault{fault}})
			client := server.Dial(LinkConfig{})
			for id, m := range []request{
				wire.Open{Path: "/a", Flags: wire.OpenRead | create},
				wire.Write{Handle: []byte{0, 0, 0, 1}, Data: []byte("hello")},
				wire.Read{Handle: []byte{0, 0, 0, 1}, Length: 5},
				onPath(wire.TypeStat, "/a"),
				wire.Limits{},
			} {
				if id == 0 {
					mustWrite(t, client, string(wire.Init{Version: 3}.Append(nil)))
				}
				if _, err := client.Write(m.Append(nil, uint32(id))); err != nil &&
					err != io.ErrClosedPipe {
					t.Errorf("%v: %v", fault, err)
				}
			}
			time.AfterFunc(time.Minute, func() { client.Close() })
			_, _ = io.Copy(io.Discard, client)
			client.Close()
			synctest.Wait()
			if n := server.Streams(); n != 0 {
				t.Errorf("%v: %d streams are still served", fault, n)
			}
		})
	}
	if len(actions) < 10 {
		t.Errorf("300 seeds gave %d kinds of action: %v", len(actions), actions)
	}
}
