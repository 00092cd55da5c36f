package keyfile

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/subtle"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/chacha20"
	//lint:ignore SA1019 OpenSSH's AEAD is not RFC 8439's, and must be put together
	"golang.org/x/crypto/poly1305"
	"golang.org/x/crypto/ssh"

	"github.com/dchest/bcrypt_pbkdf"
)

// openSSHMagic begins a key of OpenSSH's form: PROTOCOL.key.
const openSSHMagic = "openssh-key-v1\x00"

// maxRounds limits the rounds of bcrypt, which then take some seconds, as x/crypto does. ssh-keygen
// uses 16 or 24.
const maxRounds = 1 << 11

// envelope is the content after the magic.
type envelope struct {
	Cipher, KDF, Options string
	Keys                 uint32
	Public, Private      []byte
	Tag                  []byte `ssh:"rest"` // of an AEAD
}

// section is the decrypted private part.
type section struct {
	Check1, Check2 uint32
	Type           string
	Rest           []byte `ssh:"rest"`
}

func parseOpenSSH(der []byte) (*Key, error) {
	rest, ok := bytes.CutPrefix(der, []byte(openSSHMagic))
	var e envelope
	if !ok || ssh.Unmarshal(rest, &e) != nil {
		return nil, errors.New("not a valid OpenSSH key")
	}
	if e.Keys != 1 {
		return nil, errors.New("does not hold exactly one key")
	}
	if e.Cipher == "none" {
		private, err := e.parse(e.Private)
		if err != nil {
			return nil, err
		}
		return opened(private), nil
	}
	public, err := ssh.ParsePublicKey(e.Public)
	if err != nil {
		return nil, errors.New("public half is of a type that is not supported")
	}
	c, err := e.cipher()
	if err != nil {
		return nil, err
	}
	return &Key{Public: public, Locked: true, open: func(passphrase []byte) (*Private, error) {
		plain, err := c.open(&e, passphrase)
		if err != nil {
			return nil, err
		}
		return e.parse(plain)
	}}, nil
}

// parse parses the private section.
func (e *envelope) parse(plain []byte) (*Private, error) {
	var s section
	if err := ssh.Unmarshal(plain, &s); err != nil || s.Check1 != s.Check2 {
		if e.Cipher != "none" {
			return nil, ErrPassphrase
		}
		return nil, errors.New("private section is not valid")
	}
	if strings.HasPrefix(s.Type, "sk-") {
		return parseToken(s.Type, s.Rest)
	}
	return openSection(e.Public, plain)
}

// openSection lets x/crypto parse, and check, a private section that is not encrypted.
func openSection(public, plain []byte) (*Private, error) {
	file := pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY",
		Bytes: append([]byte(openSSHMagic), ssh.Marshal(envelope{Cipher: "none", KDF: "none",
			Keys: 1, Public: public, Private: plain})...)})
	key, err := ssh.ParseRawPrivateKey(file)
	if err != nil {
		return nil, err
	}
	return signing(key)
}

// A sealed is the encryption of a private section: cipher.c in OpenSSH.
type sealed struct {
	salt           string
	rounds         uint32
	key, iv, block int
	tag            int
	decrypt        func(key, iv, data, tag []byte) error // in place
}

func (e *envelope) cipher() (*sealed, error) {
	c, ok := map[string]sealed{
		"3des-cbc":                      {key: 24, iv: 8, block: 8, decrypt: openCBC},
		"aes128-cbc":                    {key: 16, iv: 16, block: 16, decrypt: openCBC},
		"aes192-cbc":                    {key: 24, iv: 16, block: 16, decrypt: openCBC},
		"aes256-cbc":                    {key: 32, iv: 16, block: 16, decrypt: openCBC},
		"aes128-ctr":                    {key: 16, iv: 16, block: 16, decrypt: openCTR},
		"aes192-ctr":                    {key: 24, iv: 16, block: 16, decrypt: openCTR},
		"aes256-ctr":                    {key: 32, iv: 16, block: 16, decrypt: openCTR},
		"aes128-gcm@openssh.com":        {key: 16, iv: 12, block: 16, tag: 16, decrypt: openGCM},
		"aes256-gcm@openssh.com":        {key: 32, iv: 12, block: 16, tag: 16, decrypt: openGCM},
		"chacha20-poly1305@openssh.com": {key: 64, block: 8, tag: 16, decrypt: openChaCha},
	}[e.Cipher]
	if !ok {
		return nil, fmt.Errorf("encrypted with %.40q, which is not supported", e.Cipher)
	}
	if e.KDF != "bcrypt" {
		return nil, fmt.Errorf("passphrase is hashed with %.40q, which is not supported", e.KDF)
	}
	var o struct {
		Salt   string
		Rounds uint32
	}
	if err := ssh.Unmarshal([]byte(e.Options), &o); err != nil {
		return nil, errors.New("not a valid OpenSSH key")
	}
	if o.Rounds > maxRounds {
		return nil, fmt.Errorf("passphrase takes %d rounds of bcrypt, and at most %d are supported",
			o.Rounds, maxRounds)
	}
	if len(e.Private)%c.block != 0 || len(e.Tag) != c.tag {
		return nil, errors.New("private section is not valid")
	}
	c.salt, c.rounds = o.Salt, o.Rounds
	return &c, nil
}

func (c *sealed) open(e *envelope, passphrase []byte) ([]byte, error) {
	k, err := bcrypt_pbkdf.Key(passphrase, []byte(c.salt), int(c.rounds), c.key+c.iv)
	if err != nil {
		return nil, err
	}
	plain := bytes.Clone(e.Private)
	return plain, c.decrypt(k[:c.key], k[c.key:], plain, e.Tag)
}

func openCBC(key, iv, data, _ []byte) error {
	block, err := aes.NewCipher(key)
	if len(iv) == des.BlockSize {
		block, err = des.NewTripleDESCipher(key)
	}
	if err != nil {
		return err
	}
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(data, data)
	return nil
}

func openCTR(key, iv, data, _ []byte) error {
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	cipher.NewCTR(block, iv).XORKeyStream(data, data)
	return nil
}

func openGCM(key, iv, data, tag []byte) error {
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	plain, err := gcm.Open(nil, iv, append(bytes.Clone(data), tag...), nil)
	if err != nil {
		return ErrPassphrase
	}
	copy(data, plain)
	return nil
}

// openChaCha opens PROTOCOL.chacha20poly1305 with the sequence number 0 and no data that is only
// authenticated, so the key for lengths is not used.
func openChaCha(key, _, data, tag []byte) error {
	c, err := chacha20.NewUnauthenticatedCipher(key[:chacha20.KeySize],
		make([]byte, chacha20.NonceSize))
	if err != nil {
		return err
	}
	var tagKey [32]byte
	c.XORKeyStream(tagKey[:], tagKey[:])
	var want [poly1305.TagSize]byte
	poly1305.Sum(&want, data, &tagKey)
	if subtle.ConstantTimeCompare(want[:], tag) != 1 {
		return ErrPassphrase
	}
	c.SetCounter(1)
	c.XORKeyStream(data, data)
	return nil
}
