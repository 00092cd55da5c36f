package sftptest

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/usftp/usftp/wire"
)

var protocolCases = []conformanceCase{
	{name: "ManyInFlight", run: func(k *kit) {
		data := strings.Repeat("0123456789", 1000)
		k.create(k.path("a"), data)
		h := k.open(k.path("a"), wire.OpenRead)
		const count, first = 200, 1000
		var packets [][]byte
		for i := range count {
			packets = append(packets, wire.Read{Handle: h, Offset: uint64(i),
				Length: 10}.Append(nil, uint32(first+i)))
		}
		if err := k.Send(packets...); err != nil {
			k.Fatalf("sending %d READs: %v", count, err)
		}
		seen := make(map[uint32]bool)
		for range count {
			r, err := k.Receive()
			if err != nil {
				k.Fatalf("after %d replies: %v", len(seen), err)
			}
			i := int(r.ID) - first
			if i < 0 || i >= count || seen[r.ID] {
				k.Fatalf("%v: not asked, or answered before", r)
			}
			seen[r.ID] = true
			var m wire.Data
			if r.Type != wire.TypeData || m.Parse(r.Body) != nil || len(m.Data) == 0 ||
				!strings.HasPrefix(data[i:i+10], string(m.Data)) {
				k.Fatalf("READ at %d: %v %q, want the beginning of %q", i, r, m.Data, data[i:i+10])
			}
		}
	}},
	{name: "RequestsTakeEffectInOrder", run: func(k *kit) {
		// Draft-02, section 6.1: requests on one file in flight together act as if in the order
		// they were sent.
		h := k.open(k.path("a"), create)
		var packets [][]byte
		for i := range 50 {
			packets = append(packets, wire.Write{Handle: h,
				Data: fmt.Appendf(nil, "%02d", i)}.Append(nil, uint32(1000+i)))
		}
		if err := k.Send(packets...); err != nil {
			k.Fatalf("sending WRITEs: %v", err)
		}
		for range packets {
			if r, err := k.Receive(); err != nil || r.Type != wire.TypeStatus {
				k.Fatalf("WRITE: %v, %v", r, err)
			}
		}
		k.closeHandle(h)
		k.wantContents(k.path("a"), "49")
	}},
	{name: "BytewisePackets", run: func(k *kit) {
		k.create(k.path("a"), "hello")
		for _, b := range onPath(wire.TypeStat, k.path("a")).Append(nil, 77) {
			if err := k.Send([]byte{b}); err != nil {
				k.Fatalf("sending a byte: %v", err)
			}
		}
		if r, err := k.Receive(); err != nil || r.ID != 77 || r.Type != wire.TypeAttrs {
			k.Fatalf("STAT byte by byte: %v, %v", r, err)
		}
	}},
	{name: "UnknownExtension", run: func(k *kit) {
		k.code(wire.Extended{Name: "no-such-thing@example.org", Payload: []byte("x")},
			wire.OpUnsupported)
	}},
	{name: "UnknownType", run: func(k *kit) {
		packet := onPath(42, "/").Append(nil, 7)
		if err := k.Send(packet, onPath(wire.TypeStat, k.dir).Append(nil, 8)); err != nil {
			k.Fatalf("sending: %v", err)
		}
		r, err := k.Receive()
		if err == nil && r.ID == 7 { // some answer, some do not
			if code, ok := r.Code(); !ok || code == wire.OK {
				k.Fatalf("an unknown type is answered %v", r)
			}
			r, err = k.Receive()
		}
		if err != nil || r.ID != 8 || r.Type != wire.TypeAttrs {
			k.Fatalf("STAT after a packet of unknown type: %v, %v", r, err)
		}
	}},
	{name: "ShortPacket", run: func(k *kit) {
		// The path's length goes beyond the packet's end.
		packet := onPath(wire.TypeStat, "/abc").Append(nil, 7)
		binary.BigEndian.PutUint32(packet[wire.HeaderSize:], 1<<31-1)
		k.errorOrEnd(packet)
	}},
	{name: "OversizedPacket", run: func(k *kit) {
		k.errorOrEnd([]byte{0x7f, 0xff, 0xff, 0xff, byte(wire.TypeWrite), 0, 0, 0, 7})
	}},
	{name: "EmptyPacket", run: func(k *kit) {
		k.errorOrEnd([]byte{0, 0, 0, 0})
	}},
}

// errorOrEnd sends an invalid packet, then a valid one. The server may answer with an error or end
// the stream; it may not answer normally.
func (k *kit) errorOrEnd(bad []byte) {
	k.Helper()
	err := k.Send(bad, onPath(wire.TypeStat, k.dir).Append(nil, 8))
	for err == nil {
		var r Reply
		r, err = k.Receive()
		if err != nil || r.ID == 8 {
			break
		}
		if code, ok := r.Code(); !ok || code == wire.OK {
			k.Fatalf("answered with %v", r)
		}
	}
	if k.timedOut.Load() {
		k.Fatalf("the server neither answered nor ended the stream within %v", kitTimeout)
	}
}
