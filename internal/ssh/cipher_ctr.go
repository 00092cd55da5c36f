package ssh

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"hash"
)

// A macSpec is a MAC by its name: RFC 6668, and OpenSSH's PROTOCOL, section 1.5, for -etm.
type macSpec struct {
	name string
	key  int
	etm  bool // encrypt-then-MAC: the length is not encrypted
	hash func() hash.Hash
}

var macSpecs = []macSpec{
	{"hmac-sha2-256-etm@openssh.com", 32, true, sha256.New},
	{"hmac-sha2-512-etm@openssh.com", 64, true, sha512.New},
	{"hmac-sha2-256", 32, false, sha256.New},
	{"hmac-sha2-512", 64, false, sha512.New},
}

func macNamed(name string) *macSpec {
	return find(macSpecs, func(m macSpec) bool { return m.name == name })
}

// ctr is AES in counter mode (RFC 4344, section 4) with a MAC. The key stream runs through all
// packets, so they are handled one by one.
type ctr struct {
	stream cipher.Stream
	mac    hash.Hash
	tag    int
	etm    bool
	number [4]byte
}

func newCTR(k keys) (packetCipher, error) {
	block, err := aes.NewCipher(k.key)
	if err != nil {
		return nil, err
	}
	if len(k.iv) != aes.BlockSize || k.spec == nil || len(k.mac) != k.spec.key {
		return nil, errKeySize
	}
	c := &ctr{stream: cipher.NewCTR(block, k.iv), mac: hmac.New(k.spec.hash, k.mac),
		etm: k.spec.etm}
	c.tag = c.mac.Size()
	return c, nil
}

func (c *ctr) form() form {
	f := form{block: aes.BlockSize, tag: c.tag, head: aes.BlockSize}
	if c.etm {
		f.head, f.outside = lengthSize, true
	}
	return f
}

// sum appends the MAC of a packet: RFC 4253, section 6.4.
func (c *ctr) sum(to []byte, seq uint32, p []byte) []byte {
	c.mac.Reset()
	binary.BigEndian.PutUint32(c.number[:], seq)
	c.mac.Write(c.number[:])
	c.mac.Write(p)
	return c.mac.Sum(to)
}

func (c *ctr) seal(_ *scratch, seq uint32, _ uint64, p []byte) {
	end := len(p) - c.tag
	if c.etm {
		c.stream.XORKeyStream(p[lengthSize:end], p[lengthSize:end])
		c.sum(p[:end], seq, p[:end])
		return
	}
	c.sum(p[:end], seq, p[:end])
	c.stream.XORKeyStream(p[:end], p[:end])
}

func (c *ctr) size(_ uint32, p []byte) (int, error) {
	if !c.etm {
		c.stream.XORKeyStream(p[:aes.BlockSize], p[:aes.BlockSize])
	}
	return c.form().packetSize(length(p))
}

func (c *ctr) open(s *scratch, seq uint32, _ uint64, p []byte) ([]byte, error) {
	end := len(p) - c.tag
	if c.etm {
		if !hmac.Equal(c.sum(s.tag[:0], seq, p[:end]), p[end:]) {
			return nil, errPacket
		}
		c.stream.XORKeyStream(p[lengthSize:end], p[lengthSize:end])
		return p[lengthSize:end], nil
	}
	c.stream.XORKeyStream(p[aes.BlockSize:end], p[aes.BlockSize:end])
	if !hmac.Equal(c.sum(s.tag[:0], seq, p[:end]), p[end:]) {
		return nil, errPacket
	}
	return p[lengthSize:end], nil
}
