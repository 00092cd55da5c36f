package keyfile

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"

	"golang.org/x/crypto/scrypt"
)

// Bounds of a passphrase's cost. OpenSSL takes 2048 iterations of PBKDF2, or 16 MiB of scrypt.
const (
	maxIterations   = 5_000_000
	maxScryptMemory = 256 << 20
	maxScryptWork   = 1 << 30 // bytes hashed
)

// encryptedInfo is EncryptedPrivateKeyInfo: RFC 5958, section 3.
type encryptedInfo struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

// RFC 8018, appendix A.4, and RFC 7914, section 7.
type pbes2 struct{ KDF, Encryption pkix.AlgorithmIdentifier }

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

type scryptParams struct {
	Salt      []byte
	N, R, P   int64
	KeyLength int `asn1:"optional"`
}

const (
	oidPBES2  = "1.2.840.113549.1.5.13"
	oidPBKDF2 = "1.2.840.113549.1.5.12"
	oidScrypt = "1.3.6.1.4.1.11591.4.11"
)

var prfs = map[string]func() hash.Hash{
	"":                    sha1.New,
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.8":  sha256.New224,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
}

// A cbc is a cipher in CBC mode.
type cbc struct {
	key int
	new func([]byte) (cipher.Block, error)
}

var cbcs = map[string]cbc{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

var errPKCS8 = errors.New("not a valid encrypted key")

// parsePKCS8 parses an encrypted PKCS #8 key.
func parsePKCS8(der []byte) (*Key, error) {
	var e encryptedInfo
	if _, err := asn1.Unmarshal(der, &e); err != nil {
		return nil, errPKCS8
	}
	if oid := e.Algorithm.Algorithm.String(); oid != oidPBES2 {
		return nil, fmt.Errorf("encrypted in an old way (%s); openssl pkcs8 -topk8 converts it",
			oid)
	}
	var p pbes2
	if _, err := asn1.Unmarshal(e.Algorithm.Parameters.FullBytes, &p); err != nil {
		return nil, errPKCS8
	}
	c, ok := cbcs[p.Encryption.Algorithm.String()]
	if !ok {
		return nil, fmt.Errorf("encrypted with a cipher that is not supported (%s)",
			p.Encryption.Algorithm)
	}
	var iv []byte
	if _, err := asn1.Unmarshal(p.Encryption.Parameters.FullBytes, &iv); err != nil {
		return nil, errPKCS8
	}
	derive, err := parseKDF(&p.KDF, c.key)
	if err != nil {
		return nil, err
	}
	return &Key{Locked: true, open: func(passphrase []byte) (*Private, error) {
		key, err := derive(passphrase)
		if err != nil {
			return nil, err
		}
		block, err := c.new(key)
		if err != nil {
			return nil, err
		}
		plain, err := unpad(block, iv, e.Data)
		if err != nil {
			return nil, err
		}
		return parsePlain("PRIVATE KEY", plain)
	}}, nil
}

// parseKDF returns the function that turns a passphrase into a key of n bytes.
func parseKDF(kdf *pkix.AlgorithmIdentifier, n int) (func([]byte) ([]byte, error), error) {
	switch oid := kdf.Algorithm.String(); oid {
	case oidPBKDF2:
		var p pbkdf2Params
		if _, err := asn1.Unmarshal(kdf.Parameters.FullBytes, &p); err != nil {
			return nil, errPKCS8
		}
		prf := prfs[p.PRF.Algorithm.String()]
		switch {
		case prf == nil:
			return nil, fmt.Errorf("passphrase is hashed in a way that is not supported (%s)",
				p.PRF.Algorithm)
		case p.Iterations < 1 || p.Iterations > maxIterations:
			return nil, fmt.Errorf("passphrase takes %d iterations of PBKDF2, and at most %d are supported",
				p.Iterations, maxIterations)
		}
		return func(passphrase []byte) ([]byte, error) {
			return pbkdf2.Key(prf, string(passphrase), p.Salt, p.Iterations, n)
		}, nil
	case oidScrypt:
		var p scryptParams
		if _, err := asn1.Unmarshal(kdf.Parameters.FullBytes, &p); err != nil {
			return nil, errPKCS8
		}
		const most = 1 << 24 // so that the products below fit
		if p.N < 2 || p.R < 1 || p.P < 1 || p.N > most || p.R > 1<<10 || p.P > 1<<10 ||
			128*(p.N+p.P)*p.R > maxScryptMemory || 128*p.N*p.R*p.P > maxScryptWork {
			return nil, fmt.Errorf("passphrase takes more work of scrypt (N=%d, r=%d, p=%d) than is supported",
				p.N, p.R, p.P)
		}
		return func(passphrase []byte) ([]byte, error) {
			return scrypt.Key(passphrase, p.Salt, int(p.N), int(p.R), int(p.P), n)
		}, nil
	default:
		return nil, fmt.Errorf("passphrase is hashed in a way that is not supported (%s)", oid)
	}
}

// unpad decrypts and removes the padding: RFC 8018, section 6.1.1.
func unpad(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errPKCS8
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	pad := int(plain[len(plain)-1])
	if pad < 1 || pad > size {
		return nil, ErrPassphrase
	}
	return plain[:len(plain)-pad], nil
}
