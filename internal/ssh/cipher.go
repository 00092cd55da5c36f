package ssh

import (
	"encoding/binary"
	"errors"
	"slices"
)

// The form of a packet (RFC 4253, section 6):
//
//	uint32 length | byte padding length | payload | padding | tag or MAC
//
// A sealer protects packets in place, an opener checks and opens them in place.

// A sealer is one direction's cipher under one key. seal may run for several packets at once if the
// cipher is parallel; otherwise packets are sealed one by one, in order.
type sealer interface {
	form() form
	// seal protects p, the whole packet with room for the tag. seq is the packet's number in its
	// direction, n its number under this key.
	seal(s *scratch, seq uint32, n uint64, p []byte)
}

// An opener is the other end of a sealer.
type opener interface {
	form() form
	// size returns the length of the packet that begins with p, of which form().head bytes are
	// present. It is called once for each packet, in order.
	size(seq uint32, p []byte) (int, error)
	// open checks p, a whole packet, and returns its padding length, payload and padding.
	open(s *scratch, seq uint32, n uint64, p []byte) ([]byte, error)
}

// form describes how a cipher lays out a packet.
type form struct {
	block    int  // padding rounds up to a multiple of it
	tag      int  // length of the tag or MAC
	head     int  // the number of bytes that reveal a packet's length
	outside  bool // the length field is not counted when padding
	parallel bool // packets do not depend on one another
}

// scratch is one goroutine's memory for sealing and opening.
type scratch struct {
	nonce [16]byte
	key   [32]byte
	tag   [64]byte
}

// minPadding is the minimum of RFC 4253, section 6.
const minPadding = 4

// padding returns the padding length for a payload.
func (f form) padding(payload int) int {
	n := 1 + payload
	if !f.outside {
		n += lengthSize
	}
	pad := f.block - n%f.block
	if pad < minPadding {
		pad += f.block
	}
	return pad
}

const (
	lengthSize = 4
	headerSize = lengthSize + 1
)

// errPacket is the only error for a packet that does not open: neither the peer nor an attacker in
// between may learn which check failed.
var errPacket = &ProtocolError{"a packet is corrupt"}

// packetSize checks a packet's length field, and returns the size of the whole packet.
func (f form) packetSize(length uint32) (int, error) {
	padded := int64(length)
	if !f.outside {
		padded += lengthSize
	}
	// The shortest packet has a message of one byte and four bytes of padding.
	if length < 2+minPadding || length > maxPacketLength || padded%int64(f.block) != 0 {
		return 0, errPacket
	}
	return lengthSize + int(length) + f.tag, nil
}

// payload strips the padding.
func payload(p []byte) ([]byte, error) {
	if len(p) == 0 {
		return nil, errPacket
	}
	pad := int(p[0])
	if pad < minPadding || len(p)-1-pad < 1 {
		return nil, errPacket
	}
	return p[1 : len(p)-pad], nil
}

// A cipherSpec is a cipher by its name.
type cipherSpec struct {
	name      string
	key, iv   int
	aead      bool
	newCipher func(k keys) (packetCipher, error)
}

// A packetCipher can be either end, but only one of them.
type packetCipher interface {
	sealer
	opener
}

// keys are the keys of one direction: RFC 4253, section 7.2.
type keys struct {
	iv, key, mac []byte
	spec         *macSpec // nil for an AEAD
}

var cipherSpecs = []cipherSpec{
	{"aes128-gcm@openssh.com", 16, 12, true, newGCM},
	{"aes256-gcm@openssh.com", 32, 12, true, newGCM},
	{"chacha20-poly1305@openssh.com", 64, 0, true, newChaCha},
	{"aes128-ctr", 16, 16, false, newCTR},
	{"aes192-ctr", 24, 16, false, newCTR},
	{"aes256-ctr", 32, 16, false, newCTR},
}

func cipherNamed(name string) *cipherSpec {
	return find(cipherSpecs, func(c cipherSpec) bool { return c.name == name })
}

// find returns the first of specs for which the function returns true, or nil.
func find[T any](specs []T, is func(T) bool) *T {
	if i := slices.IndexFunc(specs, is); i >= 0 {
		return &specs[i]
	}
	return nil
}

// plain leaves packets before the first keys as they are.
type plain struct{}

func (plain) form() form { return form{block: 8, head: lengthSize} }

func (plain) seal(*scratch, uint32, uint64, []byte) {}

func (p plain) size(_ uint32, b []byte) (int, error) { return p.form().packetSize(length(b)) }

func (plain) open(_ *scratch, _ uint32, _ uint64, p []byte) ([]byte, error) {
	return p[lengthSize:], nil
}

func length(p []byte) uint32 { return binary.BigEndian.Uint32(p) }

var errKeySize = errors.New("ssh: wrong key size")
