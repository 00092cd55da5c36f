package sshd

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// makeKey makes an Ed25519 key.
func makeKey() (ssh.Signer, crypto.PrivateKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	return signer, private, err
}

// LoadHostKeys reads host keys from files in OpenSSH's format. A missing file is created, readable
// only by its owner, with a new key: for RSA (3072 bits) or ECDSA (P-256) if its name contains
// "rsa" or "ecdsa", as in "host_rsa_key", and Ed25519 otherwise.
func LoadHostKeys(names ...string) ([]ssh.Signer, error) {
	var keys []ssh.Signer
	for _, name := range names {
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			data, err = createHostKey(name)
		}
		if err != nil {
			return nil, fmt.Errorf("host key: %w", err)
		}
		key, err := ssh.ParsePrivateKey(data)
		if err != nil {
			return nil, fmt.Errorf("host key %s: %w", name, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func makeKeyNamed(name string) (crypto.PrivateKey, error) {
	switch {
	case strings.Contains(name, "ecdsa"):
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case strings.Contains(name, "rsa"):
		return rsa.GenerateKey(rand.Reader, 3072)
	}
	_, private, err := makeKey()
	return private, err
}

// createHostKey creates a key file. It appears complete or not at all; if another process creates
// it first, that key is returned.
func createHostKey(name string) ([]byte, error) {
	private, err := makeKeyNamed(filepath.Base(name))
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), ".hostkey-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(pem.EncodeToMemory(block))
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Link(temporary.Name(), name)
		if _, there := os.Lstat(name); there == nil {
			err = nil
		} else if err != nil { // there are no hard links, as on FAT
			err = os.Rename(temporary.Name(), name)
		}
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}
