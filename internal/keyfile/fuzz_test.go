package keyfile

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"golang.org/x/crypto/ssh"
)

// ppkSeed is a key of puttygen's without a passphrase.
const ppkSeed = `PuTTY-User-Key-File-3: ssh-ed25519
Encryption: none
Comment: a
Public-Lines: 2
AAAAC3NzaC1lZDI1NTE5AAAAIFkCMPXjYKqsdU1gLjWkLR1oHDMmEHbMMNKaoTgc
zUvk
Private-Lines: 1
AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
Private-MAC: 00
`

// FuzzParse: no file, and nothing that a passphrase reveals, panics, or costs much. What a locked
// key's passphrase costs is bounded, but is too much to pay for each of a fuzzer's files.
func FuzzParse(f *testing.F) {
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	big, _ := rsa.GenerateKey(rand.Reader, 1024)
	for _, key := range []any{ed, ec, big} {
		block, err := ssh.MarshalPrivateKey(key, "comment")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(pem.EncodeToMemory(block))
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "comment", []byte("x"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(pem.EncodeToMemory(block))
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
		f.Add(der)
	}
	f.Add([]byte(ppkSeed))
	f.Fuzz(func(t *testing.T, text []byte) {
		if k, err := Parse(text); err == nil && !k.Locked {
			if _, err := k.Open(nil); err != nil {
				t.Errorf("a key without a passphrase does not open: %v", err)
			}
		}
		if len(text) > maxDER {
			return
		}
		parsePKCS8(text)
		for _, kind := range []string{"RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY"} {
			parsePlain(kind, text)
		}
		new(envelope).parse(text)
		for _, kind := range []string{ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256} {
			parseToken(kind, text)
		}
		for _, kind := range []string{ssh.KeyAlgoRSA, ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256} {
			(&ppk{kind: kind, public: text}).section(text)
		}
	})
}
