package keyfile

import (
	"crypto/aes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/ssh"
)

// puttyMagic begins a .ppk file, before its version: appendix C of PuTTY's manual.
const puttyMagic = "PuTTY-User-Key-File-"

// Bounds of Argon2. puttygen takes 8 MiB, and as many passes as fit into a tenth of a second.
const (
	maxArgonMemory = 256 << 10 // KiB
	maxArgonWork   = 16 << 20  // KiB times passes: some seconds
	maxArgonLanes  = 64
)

var errPuTTY = errors.New("not a valid PuTTY key")

// A ppk is a .ppk file.
type ppk struct {
	fields          map[string]string
	version         int
	kind            string
	public, private []byte

	memory, passes, lanes uint32
	salt                  []byte
}

// readFields reads the lines, each of which has a name. A name that ends in "-Lines" comes with a
// number of further lines.
func readFields(text []byte) (map[string]string, error) {
	fields := make(map[string]string)
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for len(lines) > 0 && lines[0] != "" {
		name, value, ok := strings.Cut(lines[0], ": ")
		lines = lines[1:]
		if _, twice := fields[name]; !ok || twice {
			return nil, errPuTTY
		}
		if strings.HasSuffix(name, "-Lines") {
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > len(lines) {
				return nil, errPuTTY
			}
			value, lines = strings.Join(lines[:n], ""), lines[n:]
		}
		fields[name] = value
	}
	return fields, nil
}

func parsePuTTY(text []byte) (*Key, error) {
	fields, err := readFields(text)
	if err != nil {
		return nil, err
	}
	k := &ppk{fields: fields}
	for _, k.version = range []int{2, 3} {
		if k.kind = fields[puttyMagic+strconv.Itoa(k.version)]; k.kind != "" {
			break
		}
	}
	if k.kind == "" {
		return nil, errors.New("not of PuTTY's versions 2 and 3; puttygen converts it")
	}
	if k.public, err = base64.StdEncoding.DecodeString(fields["Public-Lines"]); err != nil {
		return nil, errPuTTY
	}
	if k.private, err = base64.StdEncoding.DecodeString(fields["Private-Lines"]); err != nil ||
		len(k.private) > maxDER {
		return nil, errPuTTY
	}
	public, err := ssh.ParsePublicKey(k.public)
	if err != nil || public.Type() != k.kind {
		return nil, fmt.Errorf("type %.40q is not supported", k.kind)
	}
	switch fields["Encryption"] {
	case "none":
		private, err := k.open(nil)
		if err != nil {
			return nil, err
		}
		return opened(private), nil
	case "aes256-cbc":
	default:
		return nil, fmt.Errorf("encrypted with %.40q, which is not supported",
			fields["Encryption"])
	}
	if len(k.private)%aes.BlockSize != 0 {
		return nil, errPuTTY
	}
	if k.version == 3 {
		if err := k.parseArgon(); err != nil {
			return nil, err
		}
	}
	return &Key{Public: public, Locked: true, open: k.open}, nil
}

// parseArgon reads the passphrase's cost.
func (k *ppk) parseArgon() (err error) {
	for name, to := range map[string]*uint32{"Argon2-Memory": &k.memory, "Argon2-Passes": &k.passes,
		"Argon2-Parallelism": &k.lanes} {
		n, err := strconv.ParseUint(k.fields[name], 10, 31)
		if err != nil || n == 0 {
			return errPuTTY
		}
		*to = uint32(n)
	}
	if k.salt, err = hex.DecodeString(k.fields["Argon2-Salt"]); err != nil {
		return errPuTTY
	}
	switch k.fields["Key-Derivation"] {
	case "Argon2id", "Argon2i":
	default: // x/crypto has no Argon2d, either
		return fmt.Errorf("passphrase is hashed with %.40q, which is not supported; puttygen --ppk-param kdf=argon2id converts it",
			k.fields["Key-Derivation"])
	}
	used := max(uint64(k.memory), 8*uint64(k.lanes)) // RFC 9106, section 3.1: less counts as that
	if used > maxArgonMemory || used*uint64(k.passes) > maxArgonWork || k.lanes > maxArgonLanes {
		return fmt.Errorf("passphrase takes %d passes over %d KiB in %d lanes of Argon2, which is more than is supported; puttygen --ppk-param converts it",
			k.passes, k.memory, k.lanes)
	}
	return nil
}

// keys returns the keys of the cipher, with its IV, and of the MAC.
func (k *ppk) keys(passphrase []byte) (key, iv, mac []byte) {
	encrypted := k.fields["Encryption"] != "none"
	switch {
	case k.version == 2:
		sum := sha1.Sum(append([]byte("putty-private-key-file-mac-key"), passphrase...))
		for i := range byte(2) {
			part := sha1.Sum(append([]byte{0, 0, 0, i}, passphrase...))
			key = append(key, part[:]...)
		}
		return key[:32], make([]byte, aes.BlockSize), sum[:]
	case !encrypted:
		return nil, nil, nil
	}
	derive := argon2.IDKey
	if k.fields["Key-Derivation"] == "Argon2i" {
		derive = argon2.Key
	}
	out := derive(passphrase, k.salt, k.passes, k.memory, uint8(k.lanes), 80)
	return out[:32], out[32:48], out[48:]
}

func (k *ppk) open(passphrase []byte) (*Private, error) {
	key, iv, macKey := k.keys(passphrase)
	plain := append([]byte(nil), k.private...)
	if k.fields["Encryption"] != "none" {
		if err := openCBC(key, iv, plain, nil); err != nil {
			return nil, err
		}
	}
	hash := sha256.New
	if k.version == 2 {
		hash = sha1.New
	}
	mac := hmac.New(hash, macKey)
	for _, part := range []string{k.kind, k.fields["Encryption"], k.fields["Comment"],
		string(k.public), string(plain)} {
		mac.Write(appendString(nil, part))
	}
	want, err := hex.DecodeString(k.fields["Private-MAC"])
	if err != nil || !hmac.Equal(mac.Sum(nil), want) {
		if k.fields["Encryption"] != "none" {
			return nil, ErrPassphrase
		}
		return nil, errors.New("changed or damaged: the private part does not match the MAC")
	}
	section, err := k.section(plain)
	if err != nil {
		return nil, err
	}
	return openSection(k.public, section)
}

// section returns the key as a private section of OpenSSH's, which has the numbers in another
// order.
func (k *ppk) section(plain []byte) ([]byte, error) {
	head := struct {
		Check1, Check2 uint32
		Type           string
	}{Type: k.kind}
	const comment = "\x00\x00\x00\x00"
	switch k.kind {
	case ssh.KeyAlgoRSA:
		var public struct {
			Type string
			E, N *big.Int
		}
		var private struct {
			D, P, Q, Inverse *big.Int
			Padding          []byte `ssh:"rest"`
		}
		if ssh.Unmarshal(k.public, &public) != nil || ssh.Unmarshal(plain, &private) != nil {
			return nil, errPuTTY
		}
		numbers := struct{ N, E, D, Inverse, P, Q *big.Int }{public.N, public.E, private.D,
			private.Inverse, private.P, private.Q}
		return append(append(ssh.Marshal(head), ssh.Marshal(numbers)...), comment...), nil
	case ssh.KeyAlgoED25519:
		var public struct {
			Type string
			Key  []byte
		}
		var private struct {
			Seed    []byte
			Padding []byte `ssh:"rest"`
		}
		if ssh.Unmarshal(k.public, &public) != nil || ssh.Unmarshal(plain, &private) != nil ||
			len(private.Seed) != ed25519.SeedSize {
			return nil, errPuTTY
		}
		key := ed25519.NewKeyFromSeed(private.Seed)
		if string(key[ed25519.SeedSize:]) != string(public.Key) {
			return nil, errPuTTY
		}
		return append(append(ssh.Marshal(head), ssh.Marshal(struct{ Public, Private []byte }{
			public.Key, key})...), comment...), nil
	case ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		var public struct {
			Type, Curve string
			Point       []byte
		}
		var private struct {
			D       *big.Int
			Padding []byte `ssh:"rest"`
		}
		if ssh.Unmarshal(k.public, &public) != nil || ssh.Unmarshal(plain, &private) != nil {
			return nil, errPuTTY
		}
		return append(append(ssh.Marshal(head), ssh.Marshal(struct {
			Curve string
			Point []byte
			D     *big.Int
		}{public.Curve, public.Point, private.D})...), comment...), nil
	}
	return nil, fmt.Errorf("type %.40q is not supported", k.kind)
}
