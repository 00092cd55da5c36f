package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// LengthSize is the size of the length field in front of every packet. The length does not
	// count itself.
	LengthSize = 4

	// HeaderSize is the size of length, type and request id, with which every packet but INIT and
	// VERSION begins.
	HeaderSize = LengthSize + 1 + 4

	// MaxHandle is the longest handle that a server may use (draft-02, sections 6 and 7).
	MaxHandle = 256

	// DefaultMaxData is how much data a READ or WRITE may carry unless the server says otherwise:
	// draft-02, section 3, asks every server to accept packets of 34000 bytes, which is enough for
	// 32768 bytes of data.
	DefaultMaxData = 32 * 1024

	// MaxPacket is the longest packet OpenSSH's sftp-server takes or sends, length field excluded
	// (its SFTP_MAX_MSG_LENGTH).
	MaxPacket = 256 * 1024

	// MaxData is the longest read or write that OpenSSH's sftp-server allows in a packet of
	// [MaxPacket].
	MaxData = MaxPacket - 1024

	// WriteHeaderMax is the most that [Write.AppendHeader] appends: the room to leave in front of
	// data sent in place.
	WriteHeaderMax = HeaderSize + 4 + MaxHandle + 8 + 4

	// DataHeaderSize is the number of bytes that [Data.AppendHeader] appends.
	DataHeaderSize = HeaderSize + 4
)

// ErrShort means that a packet ended before its last field, or that a length in it points beyond
// its end.
var ErrShort = errors.New("sftp: packet is cut short")

// ParseHeader splits a packet, without its length field, into type, request id and body. INIT and
// VERSION have no request id: theirs is 0 and the version is part of the body.
func ParseHeader(packet []byte) (t Type, id uint32, body []byte, err error) {
	if len(packet) < 1 {
		return 0, 0, nil, ErrShort
	}
	t = Type(packet[0])
	if t == TypeInit || t == TypeVersion {
		return t, 0, packet[1:], nil
	}
	if len(packet) < 5 {
		return t, 0, nil, fmt.Errorf("%v: %w", t, ErrShort)
	}
	return t, binary.BigEndian.Uint32(packet[1:]), packet[5:], nil
}

// SetID sets the request id of a packet that begins with its length field, so that a packet can be
// made before its id is known. The packet must be at least [HeaderSize] long and neither INIT nor
// VERSION.
func SetID(packet []byte, id uint32) { binary.BigEndian.PutUint32(packet[LengthSize+1:], id) }

// appendHeader begins a packet whose length is filled in by finish.
func appendHeader(b []byte, t Type, id uint32) []byte {
	b = append(b, 0, 0, 0, 0, byte(t))
	return binary.BigEndian.AppendUint32(b, id)
}

// finish fills in the length of the packet that begins at start; more bytes will follow b.
func finish(b []byte, start, more int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-LengthSize+more))
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func appendBytes(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
