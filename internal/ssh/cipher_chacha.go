package ssh

import (
	"crypto/subtle"
	"encoding/binary"

	"golang.org/x/crypto/chacha20"
	//lint:ignore SA1019 OpenSSH's AEAD is not RFC 8439's, and must be put together
	"golang.org/x/crypto/poly1305"
)

// chacha is OpenSSH's PROTOCOL.chacha20poly1305: one key encrypts the length, another the rest; the
// nonce is the packet's sequence number, so keys must change before it wraps (see rekeyPackets).
type chacha struct {
	length, content [32]byte
	own             scratch // for size
}

func newChaCha(k keys) (packetCipher, error) {
	if len(k.key) != 64 {
		return nil, errKeySize
	}
	c := &chacha{}
	copy(c.content[:], k.key)
	copy(c.length[:], k.key[32:])
	return c, nil
}

func (c *chacha) form() form {
	return form{block: 8, tag: poly1305.TagSize, head: lengthSize, outside: true, parallel: true}
}

// xor applies a packet's key stream, starting at the given 64-byte block.
func (s *scratch) xor(key *[32]byte, seq, block uint32, to, p []byte) {
	nonce := s.nonce[:chacha20.NonceSize]
	clear(nonce)
	binary.BigEndian.PutUint32(nonce[8:], seq)
	c, err := chacha20.NewUnauthenticatedCipher(key[:], nonce)
	if err != nil {
		panic("ssh: " + err.Error()) // the sizes are correct
	}
	c.SetCounter(block)
	c.XORKeyStream(to, p)
}

// tagKey returns poly1305's key for a packet: the first block of the content's stream.
func (c *chacha) tagKey(s *scratch, seq uint32) *[32]byte {
	clear(s.key[:])
	s.xor(&c.content, seq, 0, s.key[:], s.key[:])
	return &s.key
}

func (c *chacha) seal(s *scratch, seq uint32, _ uint64, p []byte) {
	end := len(p) - poly1305.TagSize
	s.xor(&c.length, seq, 0, p[:lengthSize], p[:lengthSize])
	s.xor(&c.content, seq, 1, p[lengthSize:end], p[lengthSize:end])
	poly1305.Sum((*[16]byte)(p[end:]), p[:end], c.tagKey(s, seq))
}

func (c *chacha) size(seq uint32, p []byte) (int, error) {
	s := &c.own
	s.xor(&c.length, seq, 0, s.tag[:lengthSize], p[:lengthSize])
	return c.form().packetSize(length(s.tag[:]))
}

func (c *chacha) open(s *scratch, seq uint32, _ uint64, p []byte) ([]byte, error) {
	end := len(p) - poly1305.TagSize
	tag := (*[16]byte)(s.tag[:16])
	poly1305.Sum(tag, p[:end], c.tagKey(s, seq))
	if subtle.ConstantTimeCompare(tag[:], p[end:]) != 1 {
		return nil, errPacket
	}
	s.xor(&c.content, seq, 1, p[lengthSize:end], p[lengthSize:end])
	return p[lengthSize:end], nil
}
