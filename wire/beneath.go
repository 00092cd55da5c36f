package wire

import "encoding/binary"

// ExtBeneath is our own extension, version "2": a request that follows no symbolic link beneath a
// directory, so that someone who may write there cannot redirect it. docs/beneath.md describes it.
const ExtBeneath = "beneath@usftp"

// Beneath wraps a request on paths. The answer is the answer to the wrapped request.
type Beneath struct {
	// Top is the number of bytes at the beginning of each path that name the directory, with the
	// slash after it. Links on the way there are followed.
	Top     uint32
	Request Type   // of the wrapped request, which may be [TypeExtended]
	Body    []byte // the bytes after the id in the wrapped request
}

// Append appends the packet.
func (m Beneath) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(appendExtended(b, id, ExtBeneath), m.Top)
	b = append(append(b, byte(m.Request)), m.Body...)
	return finish(b, start, 0)
}

// Parse parses the payload. Body is part of it.
func (m *Beneath) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Top, m.Request, m.Body = r.Uint32(), Type(r.Byte()), r.Rest()
	return r.err
}
