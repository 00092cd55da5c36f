package sftptest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/wire"
)

// counted runs a client behind a counter over a link of 70 ms one way and 30 ms back, without
// counting INIT.
func counted(t *testing.T, link LinkConfig, test func(*Counter, *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(t, Script{})
		server.Files.WriteFile("/file", make([]byte, 1000))
		counter := NewCounter(server.Dial(link))
		k := newKit(t, counter)
		counter.Reset()
		test(counter, k)
	})
}

var longLink = LinkConfig{ToServer: 70 * ms, ToClient: 30 * ms}

func TestCounterOfOneAfterAnother(t *testing.T) {
	counted(t, longLink, func(counter *Counter, k *kit) {
		elapsed(t, 5*longLink.RTT(), "five requests", func() {
			for range 5 {
				k.stat("/file")
			}
		})
		c := counter.Counts()
		if c.RoundTrips != 5 || c.Turns != 5 || c.Writes != 5 ||
			c.PacketsSent[wire.TypeStat] != 5 || c.PacketsReceived[wire.TypeAttrs] != 5 {
			t.Errorf("counted %+v", c)
		}
		request := len(onPath(wire.TypeStat, "/file").Append(nil, 0))
		if c.BytesSent != int64(5*request) || c.BytesReceived != 5*41 {
			t.Errorf("%d bytes sent, %d received, want %d, %d", c.BytesSent, c.BytesReceived,
				5*request, 5*41)
		}
	})
}

// A sliding window of 10 READs out of 100: each reply lets another one out.
func TestCounterOfAWindow(t *testing.T) {
	for name, link := range map[string]LinkConfig{"whole": longLink,
		"bytewise": {ToServer: 70 * ms, ToClient: 30 * ms, MaxPiece: 1}} {
		t.Run(name, func(t *testing.T) {
			counted(t, link, func(counter *Counter, k *kit) {
				h := k.open("/file", wire.OpenRead)
				send := func(i int) {
					_ = k.Send(wire.Read{Handle: h, Offset: uint64(10 * i), Length: 10}.Append(nil,
						uint32(1000+i)))
				}
				elapsed(t, time.Second, "100 requests, 10 at a time", func() {
					for i := range 10 {
						send(i)
					}
					for i := range 100 {
						if r, err := k.Receive(); err != nil || r.Type != wire.TypeData {
							t.Fatalf("READ: %v, %v", r, err)
						}
						if i+10 < 100 {
							send(i + 10)
						}
					}
				})
				if c := counter.Counts(); c.RoundTrips != 11 ||
					c.PacketsReceived[wire.TypeData] != 100 {
					t.Errorf("counted %+v, want 11 round trips: OPEN and ten windows", c)
				}
			})
		})
	}
}

func TestCounterOfABatch(t *testing.T) {
	counted(t, longLink, func(counter *Counter, k *kit) {
		elapsed(t, longLink.RTT(), "1000 requests at once", func() {
			var packets [][]byte
			for i := range 1000 {
				packets = append(packets, onPath(wire.TypeStat, "/file").Append(nil, uint32(i)))
			}
			_ = k.Send(packets...)
			for range packets {
				_, _ = k.Receive()
			}
		})
		if c := counter.Counts(); c.RoundTrips != 1 || c.Turns != 1 || c.Writes != 1 {
			t.Errorf("counted %+v", c)
		}
	})
}

func TestCounterCountsLoggingIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counter := NewCounter(NewServer(t, Script{}).Dial(longLink))
		k := newKit(t, counter)
		k.stat("/")
		c := counter.Counts()
		if c.RoundTrips != 2 || c.PacketsSent[wire.TypeInit] != 1 ||
			c.PacketsReceived[wire.TypeVersion] != 1 {
			t.Errorf("counted %+v", c)
		}
	})
}

// A stream that is not SFTP is counted in bytes only, and needs no memory.
func TestCounterOfNonsense(t *testing.T) {
	client, server := NewLink(LinkConfig{})
	counter := NewCounter(client)
	text := "This account is not available.\n"
	mustWrite(t, server, text)
	mustRead(t, counter, text)
	mustWrite(t, counter, "\x00\x00\x00\x00\x00\x00\x00\x01\x05\x00\x00\x00\x02\x0c\x00")
	c := counter.Counts()
	if c.BytesReceived != int64(len(text)) || c.BytesSent != 15 ||
		c.PacketsSent[wire.TypeWrite] != 0 || c.PacketsSent[wire.TypeRead] != 1 ||
		c.PacketsSent[wire.TypeReaddir] != 1 {
		t.Errorf("counted %+v", c)
	}
}
