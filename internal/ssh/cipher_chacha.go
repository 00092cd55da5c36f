package ssh

import (
	"crypto/subtle"
	"encoding/binary"

	"golang.org/x/crypto/chacha20"
	//lint:ignore SA1019 OpenSSH's AEAD is not RFC 8439's, and must be put together
	"golang.org/x/crypto/poly1305"
)

// chacha is OpenSSH's PROTOCOL.chacha20poly1305: one key encrypts the length, the other the rest;
// the nonce is the packet's sequence number, so keys must change before it wraps (see rekey.go).
type chacha struct {
	length, content [32]byte
}

func newChaCha(k keys) (*chacha, error) {
	if len(k.key) != 64 {
		return nil, errKeySize
	}
	c := &chacha{}
	copy(c.content[:], k.key)
	copy(c.length[:], k.key[32:])
	return c, nil
}

func newChaChaSealer(k keys) (sealer, error) { return newChaCha(k) }
func newChaChaOpener(k keys) (opener, error) { return newChaCha(k) }

func (c *chacha) form() form {
	return form{block: 8, tag: poly1305.TagSize, head: lengthSize, outside: true, parallel: true}
}

// stream starts a key stream for a packet; the one for its content has poly1305's key in its first
// block.
func stream(key *[32]byte, nonce []byte, seq uint32) *chacha20.Cipher {
	clear(nonce)
	binary.BigEndian.PutUint32(nonce[8:], seq)
	s, err := chacha20.NewUnauthenticatedCipher(key[:], nonce)
	if err != nil {
		panic("ssh: " + err.Error()) // the sizes are right
	}
	return s
}

func (c *chacha) contentStream(s *scratch, seq uint32) *chacha20.Cipher {
	st := stream(&c.content, s.nonce[:12], seq)
	clear(s.key[:])
	st.XORKeyStream(s.key[:], s.key[:])
	st.SetCounter(1)
	return st
}

func (c *chacha) seal(s *scratch, seq uint32, _ uint64, p []byte) {
	end := len(p) - poly1305.TagSize
	stream(&c.length, s.nonce[:12], seq).XORKeyStream(p[:lengthSize], p[:lengthSize])
	c.contentStream(s, seq).XORKeyStream(p[lengthSize:end], p[lengthSize:end])
	poly1305.Sum((*[16]byte)(p[end:]), p[:end], &s.key)
}

func (c *chacha) size(seq uint32, p []byte) (int, error) {
	var nonce [12]byte
	var clear [lengthSize]byte
	stream(&c.length, nonce[:], seq).XORKeyStream(clear[:], p[:lengthSize])
	return c.form().packetSize(length(clear[:]))
}

func (c *chacha) open(s *scratch, seq uint32, _ uint64, p []byte) ([]byte, error) {
	end := len(p) - poly1305.TagSize
	content := c.contentStream(s, seq)
	tag := (*[16]byte)(s.tag[:16])
	poly1305.Sum(tag, p[:end], &s.key)
	if subtle.ConstantTimeCompare(tag[:], p[end:]) != 1 {
		return nil, errPacket
	}
	content.XORKeyStream(p[lengthSize:end], p[lengthSize:end])
	return p[lengthSize:end], nil
}
