package sftptest

import (
	"encoding/binary"

	"github.com/usftp/usftp/wire"
)

// frameStart holds the fields of a packet's header.
type frameStart struct {
	kind wire.Type
	id   uint32 // 0 for INIT and VERSION
}

// frameScanner finds the packets in a stream that comes in pieces. It keeps the 9 bytes of a header
// and skips the rest.
type frameScanner struct {
	header [wire.HeaderSize]byte
	have   int    // bytes of header
	skip   uint64 // bytes of the current packet still to come, once its header is known
}

// scan calls found for each packet whose header ends in p. A packet too short for an id counts as
// having id 0.
func (s *frameScanner) scan(p []byte, found func(frameStart)) {
	for len(p) > 0 {
		if s.skip > 0 {
			n := min(s.skip, uint64(len(p)))
			p, s.skip = p[n:], s.skip-n
			continue
		}
		n := copy(s.header[s.have:s.want()], p)
		p, s.have = p[n:], s.have+n
		if s.have < s.want() {
			continue
		}
		length := binary.BigEndian.Uint32(s.header[:])
		if length > 0 {
			start := frameStart{kind: wire.Type(s.header[wire.LengthSize])}
			if s.have == wire.HeaderSize && start.kind != wire.TypeInit &&
				start.kind != wire.TypeVersion {
				start.id = binary.BigEndian.Uint32(s.header[wire.LengthSize+1:])
			}
			s.skip = uint64(length) + wire.LengthSize - uint64(s.have)
			found(start)
		}
		s.have = 0
	}
}

// want returns the length of the header, judging by its first bytes.
func (s *frameScanner) want() int {
	if s.have < wire.LengthSize {
		return wire.LengthSize
	}
	length := binary.BigEndian.Uint32(s.header[:])
	return wire.LengthSize + int(min(length, wire.HeaderSize-wire.LengthSize))
}
