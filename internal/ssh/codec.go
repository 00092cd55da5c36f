package ssh

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/usftp/usftp/wire"
)

// The data types of RFC 4251, section 5.

func appendUint32(p []byte, n uint32) []byte { return binary.BigEndian.AppendUint32(p, n) }

func appendString[T ~string | ~[]byte](p []byte, s T) []byte {
	return append(appendUint32(p, uint32(len(s))), s...)
}

func appendBool(p []byte, b bool) []byte {
	if b {
		return append(p, 1)
	}
	return append(p, 0)
}

func appendNames(p []byte, names []string) []byte {
	return appendString(p, strings.Join(names, ","))
}

// appendMPInt appends a non-negative number, given as its bytes, most significant first.
func appendMPInt(p, magnitude []byte) []byte {
	for len(magnitude) > 0 && magnitude[0] == 0 {
		magnitude = magnitude[1:]
	}
	if len(magnitude) > 0 && magnitude[0]&0x80 != 0 {
		p = appendUint32(p, uint32(len(magnitude)+1))
		return append(append(p, 0), magnitude...)
	}
	return appendString(p, magnitude)
}

// maxNames limits how many names of a list are split off. The rest counts as one unknown name.
const maxNames = 500

// A fieldReader reads the fields of one message. Its error is sticky, like [wire.Reader]'s: a
// parser reads all fields, and ends with parsed or whole.
type fieldReader struct {
	wire.Reader
	number byte
	err    error // it is another message
}

// body starts parsing a message whose first byte must be the given number.
func body(payload []byte, number byte) fieldReader {
	if len(payload) == 0 || payload[0] != number {
		return fieldReader{err: unexpected(payload, number)}
	}
	return fields(payload[1:], number)
}

// fields starts parsing the rest of a message.
func fields(rest []byte, number byte) fieldReader {
	return fieldReader{Reader: wire.NewReader(rest), number: number}
}

// Bool reads a boolean.
func (r *fieldReader) Bool() bool { return r.Byte() != 0 }

// Names reads a name-list, which is at most as long as its packet.
func (r *fieldReader) Names() []string {
	list := r.String()
	if list == "" {
		return nil
	}
	return strings.SplitN(list, ",", maxNames+1)
}

// parsed ends parsing: every field must have been present.
func (r *fieldReader) parsed() error {
	if r.err == nil && r.Err() != nil {
		return &ProtocolError{fmt.Sprintf("message %d is truncated", r.number)}
	}
	return r.err
}

// whole ends parsing like parsed, for messages that a hash or a signature proves: neither covers
// bytes after the last field, so an attacker could have put them there.
func (r *fieldReader) whole() error {
	if err := r.parsed(); err != nil {
		return err
	}
	if r.Len() > 0 {
		return &ProtocolError{fmt.Sprintf("message %d has trailing data", r.number)}
	}
	return nil
}

func unexpected(payload []byte, want byte) error {
	if len(payload) == 0 {
		return &ProtocolError{"a packet without a message"}
	}
	return &ProtocolError{fmt.Sprintf("got message %d, want %d", payload[0], want)}
}
