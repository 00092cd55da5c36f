package sftptest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/usftp/usftp/wire"
)

// Action changes the handling of a request or its reply. Its String is the Go expression that makes
// it.
type Action struct {
	expression string
	before     func(*session, *call) // before the request is executed
	after      func(*session, *call) // when the reply is ready
}

// String returns the expression that makes the action.
func (a Action) String() string {
	if a.expression == "" {
		return "sftptest.Action{}"
	}
	return "sftptest." + a.expression
}

// Refuse answers with a status instead of executing the request. With wire.OK it is a lie.
func Refuse(code wire.Code, message string) Action {
	return Action{expression: fmt.Sprintf("Refuse(%s, %q)", goCode(code), message),
		before: func(_ *session, c *call) { c.refused = true },
		after:  func(s *session, c *call) { s.statusMessage(c, code, message) }}
}

// Fail executes the request and answers that it failed, like a CLOSE that reports a failed WRITE.
func Fail(code wire.Code, message string) Action {
	return Action{expression: fmt.Sprintf("Fail(%s, %q)", goCode(code), message),
		after: func(s *session, c *call) { s.statusMessage(c, code, message) }}
}

// ZeroData answers DATA without any bytes.
func ZeroData() Action { return ReplyType(wire.TypeData) }

// NoNames answers NAME without any entries.
func NoNames() Action { return ReplyType(wire.TypeName) }

// ReplyType answers with the emptiest packet of the given type, which need not be a valid answer to
// the request; the request is not executed. STATUS says OK.
func ReplyType(t wire.Type) Action {
	return Action{expression: "ReplyType(" + goType(t) + ")",
		before: func(_ *session, c *call) { c.refused = true },
		after:  func(_ *session, c *call) { c.answer(emptyPacket(t, c.ID)) }}
}

// emptyPacket returns the shortest correct packet of a type.
func emptyPacket(t wire.Type, id uint32) []byte {
	switch t {
	case wire.TypeVersion:
		return wire.InitReply{Version: wire.Version}.Append(nil)
	case wire.TypeStatus:
		return wire.Status{}.Append(nil, id)
	case wire.TypeHandle:
		return wire.Handle{Handle: []byte("h")}.Append(nil, id)
	case wire.TypeData:
		return wire.Data{}.Append(nil, id)
	case wire.TypeName:
		return wire.Names{}.Append(nil, id)
	case wire.TypeAttrs:
		return wire.AttrsReply{}.Append(nil, id)
	}
	packet := wire.ExtendedReply{}.Append(nil, id)
	packet[wire.LengthSize] = byte(t)
	return packet
}

// Drop executes the request and does not answer.
func Drop() Action {
	return Action{expression: "Drop()", after: func(_ *session, c *call) { c.reply = nil }}
}

// Silence answers neither this request nor any later one on its stream, but keeps reading.
func Silence() Action {
	return Action{expression: "Silence()",
		before: func(s *session, c *call) { s.silent, c.refused = true, true },
		after:  func(_ *session, c *call) { c.reply = nil }}
}

// Hangup closes the stream instead of answering.
func Hangup() Action {
	return Action{expression: "Hangup()", before: func(_ *session, c *call) { c.refused = true },
		after: func(_ *session, c *call) { c.reply, c.hangup = nil, true }}
}

// LastReply answers and then closes the stream.
func LastReply() Action {
	return Action{expression: "LastReply()", after: func(_ *session, c *call) { c.hangup = true }}
}

// Truncate sends the first n bytes of the reply, its length field included, and closes the stream.
func Truncate(n int) Action {
	return Action{expression: fmt.Sprintf("Truncate(%d)", n), after: func(_ *session, c *call) {
		for i, packet := range c.reply {
			c.reply[i] = packet[:min(n, len(packet))]
		}
		c.hangup = true
	}}
}

// Length sends the reply with another length field, and nothing after it, as if more bytes were
// still to come.
func Length(n uint32) Action {
	return Action{expression: fmt.Sprintf("Length(%d)", n), after: func(s *session, c *call) {
		for _, packet := range c.reply {
			binary.BigEndian.PutUint32(packet, n)
		}
		s.silentAfter = true
	}}
}

// UnknownID gives the reply an id that was never used: the request's, with the highest bit flipped.
func UnknownID() Action {
	return Action{expression: "UnknownID()", after: func(_ *session, c *call) {
		for _, packet := range c.reply {
			if len(packet) >= wire.HeaderSize {
				wire.SetID(packet, c.ID^1<<31)
			}
		}
	}}
}

// Repeat sends the reply twice.
func Repeat() Action {
	return Action{expression: "Repeat()",
		after: func(_ *session, c *call) { c.reply = append(c.reply, c.reply...) }}
}

// Garble changes some bytes of the reply after its header, at random.
func Garble(seed uint64) Action {
	return Action{expression: fmt.Sprintf("Garble(%d)", seed), after: func(_ *session, c *call) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for _, packet := range c.reply {
			body := packet[min(wire.HeaderSize, len(packet)):]
			for len(body) > 0 && rng.IntN(4) > 0 {
				body[rng.IntN(min(len(body), 64))] = byte(rng.Uint32())
			}
		}
	}}
}

// ReplyBytes sends bytes instead of the reply; the request is not executed.
func ReplyBytes(data string) Action {
	return Action{expression: fmt.Sprintf("ReplyBytes(%q)", data),
		before: func(_ *session, c *call) { c.refused = true },
		after:  func(_ *session, c *call) { c.answer([]byte(data)) }}
}

// Delay sends the reply later, and lets others overtake it.
func Delay(d time.Duration) Action {
	return Action{expression: fmt.Sprintf("Delay(%d)", int64(d)),
		after: func(_ *session, c *call) { c.delay += d }}
}

// Hold keeps the reply until the gate lets it pass; others overtake it.
func Hold(gate *Gate) Action {
	return Action{expression: "Hold(gate)", after: func(_ *session, c *call) { c.gate = gate }}
}

// Resize changes the size of the file at a path before the request is executed, like a file that
// grows or shrinks while it is read.
func Resize(path string, size int64) Action {
	return Action{expression: fmt.Sprintf("Resize(%q, %d)", path, size),
		before: func(s *session, _ *call) { _ = s.server.Files.Resize(path, size) }}
}

// Call calls a function before the request is executed, on the goroutine that serves the stream.
// Only its name is printed.
func Call(name string, f func(Request)) Action {
	return Action{expression: fmt.Sprintf("Call(%q, func)", name),
		before: func(_ *session, c *call) { f(c.Request) }}
}
