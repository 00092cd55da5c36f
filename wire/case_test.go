package wire

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"
)

// testID is the request id of every packet written out in the tests; its bytes differ, so that
// their order shows.
const testID = 0x01020304

// message is what every message is, once its Append takes an id; see initPacket.
type message interface {
	Append(b []byte, id uint32) []byte
	Parse(body []byte) error
}

// initPacket and initReplyPacket are INIT and VERSION with an Append that ignores the id they do
// not have.
type (
	initPacket      struct{ Init }
	initReplyPacket struct{ InitReply }
)

func (m *initPacket) Append(b []byte, _ uint32) []byte      { return m.Init.Append(b) }
func (m *initReplyPacket) Append(b []byte, _ uint32) []byte { return m.InitReply.Append(b) }

// A packetCase is one packet, byte for byte, and the message that it is.
type packetCase struct {
	name    string
	packet  string // for unhex, length field included
	message message

	mayEndAt []int // lengths shorter than the whole at which the body is complete too
	// how many of the last bytes are of no length the packet names, so that any of them may be
	// missing
	opaque int
}

// allPackets returns every message of the package at least once.
func allPackets() []packetCase {
	return slices.Concat(requestPackets(), attrsPackets(), replyPackets(), extensionPackets(),
		extensionReplyPackets(),
		checkFilePackets(), chunksPackets(), beneathPackets())
}

// bytes returns the packet and the part of it that the message's Parse takes.
func (c *packetCase) bytes(t testing.TB) (packet, body []byte) {
	t.Helper()
	packet = unhex(t, c.packet)
	return packet, bodyOf(t, packet, c.message)
}

// bodyOf returns the part of a packet that m's Parse takes, and fails the test where the packet's
// length or id is wrong.
func bodyOf(t testing.TB, packet []byte, m message) []byte {
	t.Helper()
	if n := binary.BigEndian.Uint32(packet); int(n) != len(packet)-LengthSize {
		t.Fatalf("the length field says %d, %d bytes follow it", n, len(packet)-LengthSize)
	}
	kind, id, body, err := ParseHeader(packet[LengthSize:])
	if err != nil {
		t.Fatal(err)
	}
	if kind == TypeInit || kind == TypeVersion {
		return body
	}
	if id != testID {
		t.Fatalf("id %#x, want %#x", id, testID)
	}
	if _, general := m.(*Extended); general || kind != TypeExtended {
		return body
	}
	var extended Extended
	if err := extended.Parse(body); err != nil {
		t.Fatal(err)
	}
	return extended.Payload
}

// blank returns an empty message of m's type. What Parse leaves alone, because it was read before,
// is as in m.
func blank(m message) message {
	switch m := m.(type) {
	case *HandleRequest:
		return &HandleRequest{Type: m.Type}
	case *PathRequest:
		return &PathRequest{Type: m.Type}
	case *PathAttrs:
		return &PathAttrs{Type: m.Type}
	case *ExtendedPath:
		return &ExtendedPath{Name: m.Name}
	case *ExtendedHandle:
		return &ExtendedHandle{Name: m.Name}
	case *CheckFile:
		return &CheckFile{Name: m.Name}
	}
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
}
