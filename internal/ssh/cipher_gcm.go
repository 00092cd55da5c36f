package ssh

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
)

// gcm is AES-GCM: RFC 5647 under the names of OpenSSH's PROTOCOL, section 1.6. The length is
// authenticated but not encrypted, and the nonce counts packets, so any packet can be sealed and
// opened independently.
type gcm struct {
	aead  cipher.AEAD
	fixed [4]byte
	first uint64 // invocation counter of the key's first packet
}

const gcmTag = 16

func newGCM(k keys) (packetCipher, error) {
	if len(k.iv) != 12 {
		return nil, errKeySize
	}
	block, err := aes.NewCipher(k.key)
	if err != nil {
		return nil, err
	}
	g := &gcm{first: binary.BigEndian.Uint64(k.iv[4:])}
	copy(g.fixed[:], k.iv)
	g.aead, err = cipher.NewGCM(block)
	return g, err
}

func (g *gcm) form() form {
	return form{block: aes.BlockSize, tag: gcmTag, head: lengthSize, outside: true, parallel: true}
}

func (g *gcm) nonce(s *scratch, n uint64) []byte {
	copy(s.nonce[:], g.fixed[:])
	binary.BigEndian.PutUint64(s.nonce[4:], g.first+n)
	return s.nonce[:12]
}

func (g *gcm) seal(s *scratch, _ uint32, n uint64, p []byte) {
	end := len(p) - gcmTag
	g.aead.Seal(p[lengthSize:lengthSize], g.nonce(s, n), p[lengthSize:end], p[:lengthSize])
}

func (g *gcm) size(_ uint32, p []byte) (int, error) { return g.form().packetSize(length(p)) }

func (g *gcm) open(s *scratch, _ uint32, n uint64, p []byte) ([]byte, error) {
	clear, err := g.aead.Open(p[lengthSize:lengthSize], g.nonce(s, n), p[lengthSize:],
		p[:lengthSize])
	if err != nil {
		return nil, errPacket
	}
	return clear, nil
}
