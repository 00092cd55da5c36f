package wire

import "encoding/binary"

// Reader reads the fields of a body one after the other. Its error sticks: once a field is missing
// all further ones are zero, so a parser reads all its fields and calls Err once, and cannot forget
// a bounds check.
type Reader struct {
	rest []byte
	err  error
}

// NewReader returns a Reader over body, which it neither copies nor changes.
func NewReader(body []byte) Reader { return Reader{rest: body} }

// Err returns [ErrShort] if a field was missing, otherwise nil.
func (r *Reader) Err() error { return r.err }

// Rest returns the bytes not read yet, aliasing the body.
func (r *Reader) Rest() []byte { return r.rest }

// Len returns the number of bytes that have not been read yet.
func (r *Reader) Len() int { return len(r.rest) }

func (r *Reader) take(n uint32) []byte {
	if uint64(n) > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	field := r.rest[:n:n]
	r.rest = r.rest[n:]
	return field
}

func (r *Reader) fail() {
	r.err = ErrShort
	r.rest = nil
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint32 reads four bytes, most significant first.
func (r *Reader) Uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// Uint64 reads eight bytes, most significant first.
func (r *Reader) Uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Bytes reads a length and as many bytes, which alias the body.
func (r *Reader) Bytes() []byte { return r.take(r.Uint32()) }

// String reads a length and as many bytes, and copies them.
func (r *Reader) String() string { return string(r.Bytes()) }
