package sshd

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/wire"
)

// RevocationList lists revoked keys and certificates. It is read from a file in OpenSSH's format,
// as written by ssh-keygen -k (PROTOCOL.krl), or from a list of public keys, one per line
// (sshd_config(5), RevokedKeys). A nil list revokes nothing.
type RevocationList struct {
	keys   map[string]bool // by their wire format
	sha1   map[string]bool
	sha256 map[string]bool
	// by the authority's wire format; "" stands for every authority
	byCA map[string]*revokedCertificates
}

type revokedCertificates struct {
	ranges []serialRange
	keyIDs map[string]bool
}

type serialRange struct{ from, to uint64 }

var errRevoked = errors.New("the key has been revoked")

// krlMagic begins the binary format, "SSHKRL\n\0", with its version.
const (
	krlMagic   = "SSHKRL\n\x00"
	krlVersion = 1
)

// The sections of PROTOCOL.krl, and of its certificate sections.
const (
	krlCertificates = 1
	krlKeys         = 2
	krlSHA1         = 3
	krlSignature    = 4
	krlSHA256       = 5
	krlExtension    = 255

	krlSerialList   = 0x20
	krlSerialRange  = 0x21
	krlSerialBitmap = 0x22
	krlKeyID        = 0x23
	krlCAExtension  = 0x39
)

// ReadRevocationList reads a file. Any problem with it is an error: half a list would admit keys
// that it should keep out.
func ReadRevocationList(name string) (*RevocationList, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	list, err := ParseRevocationList(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

// ParseRevocationList parses the contents of a file.
func ParseRevocationList(data []byte) (*RevocationList, error) {
	list := &RevocationList{
		keys:   map[string]bool{},
		sha1:   map[string]bool{},
		sha256: map[string]bool{},
		byCA:   map[string]*revokedCertificates{},
	}
	if !bytes.HasPrefix(data, []byte(krlMagic)) {
		return list, list.parseText(data)
	}
	r := wire.NewReader(data[len(krlMagic):])
	if version := r.Uint32(); version != krlVersion {
		return nil, fmt.Errorf("revocation list of format %d; only %d is supported", version,
			krlVersion)
	}
	r.Uint64() // version of the list itself
	r.Uint64() // creation time
	r.Uint64() // flags; none are defined
	r.Bytes()  // reserved
	r.Bytes()  // comment
	for r.Err() == nil && r.Len() > 0 {
		if err := list.section(r.Byte(), r.Bytes()); err != nil {
			return nil, err
		}
	}
	return list, short(r.Err())
}

func short(err error) error {
	if err != nil {
		return errors.New("the revocation list is truncated")
	}
	return nil
}

// parseText parses a list of public keys.
func (l *RevocationList) parseText(data []byte) error {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, _, _, _, err := ssh.ParseAuthorizedKey(line)
		if err != nil {
			return fmt.Errorf("line %d: no key", number)
		}
		l.keys[string(transport.PlainKey(key).Marshal())] = true
	}
	return nil
}

func (l *RevocationList) section(kind byte, data []byte) error {
	r := wire.NewReader(data)
	switch kind {
	case krlCertificates:
		return l.certificates(&r)
	case krlKeys, krlSHA1, krlSHA256:
		set := map[byte]map[string]bool{krlKeys: l.keys, krlSHA1: l.sha1, krlSHA256: l.sha256}[kind]
		for r.Err() == nil && r.Len() > 0 {
			set[r.String()] = true
		}
	case krlSignature:
		// OpenSSH does not check signatures either: the list is as trustworthy as its file.
	case krlExtension:
		return extension(&r)
	default:
		return fmt.Errorf("the revocation list has a section of unknown type %d", kind)
	}
	return short(r.Err())
}

// extension refuses critical extensions, since none are known.
func extension(r *wire.Reader) error {
	name, critical := r.String(), r.Byte()
	if critical != 0 && r.Err() == nil {
		return fmt.Errorf("the revocation list has the unknown critical extension %q",
			name)
	}
	return short(r.Err())
}

func (l *RevocationList) certificates(r *wire.Reader) error {
	ca := r.String()
	r.Bytes() // reserved
	revoked := l.byCA[ca]
	if revoked == nil {
		revoked = &revokedCertificates{keyIDs: map[string]bool{}}
		l.byCA[ca] = revoked
	}
	for r.Err() == nil && r.Len() > 0 {
		kind, data := r.Byte(), r.Bytes()
		if r.Err() != nil {
			break
		}
		if err := revoked.section(kind, data); err != nil {
			return err
		}
	}
	return short(r.Err())
}

func (c *revokedCertificates) section(kind byte, data []byte) error {
	r := wire.NewReader(data)
	switch kind {
	case krlSerialList:
		for r.Err() == nil && r.Len() > 0 {
			serial := r.Uint64()
			c.ranges = append(c.ranges, serialRange{serial, serial})
		}
	case krlSerialRange:
		c.ranges = append(c.ranges, serialRange{r.Uint64(), r.Uint64()})
	case krlSerialBitmap:
		c.bitmap(r.Uint64(), r.Bytes())
	case krlKeyID:
		for r.Err() == nil && r.Len() > 0 {
			c.keyIDs[r.String()] = true
		}
	case krlCAExtension:
		return extension(&r)
	default:
		return fmt.Errorf("the revocation list has a certificate section of unknown type %d",
			kind)
	}
	return short(r.Err())
}

// bitmap adds the serials offset+i for each bit i that is set. Adjacent bits become one range.
func (c *revokedCertificates) bitmap(offset uint64, number []byte) {
	bits := uint64(len(number)) * 8
	isSet := func(i uint64) bool { return number[uint64(len(number))-1-i/8]>>(i%8)&1 != 0 }
	for i := uint64(0); i < bits; i++ {
		if !isSet(i) {
			continue
		}
		first := i
		for i+1 < bits && isSet(i+1) {
			i++
		}
		c.ranges = append(c.ranges, serialRange{offset + first, offset + i})
	}
}

// KeyRevoked reports whether a key has been revoked. For certificates see CertificateRevoked.
func (l *RevocationList) KeyRevoked(key ssh.PublicKey) bool {
	if l == nil {
		return false
	}
	blob := transport.PlainKey(key).Marshal()
	short, long := sha1.Sum(blob), sha256.Sum256(blob)
	return l.keys[string(blob)] || l.sha1[string(short[:])] || l.sha256[string(long[:])]
}

// CertificateRevoked reports whether a certificate has been revoked, or its key, or its
// authority's.
func (l *RevocationList) CertificateRevoked(certificate *ssh.Certificate) bool {
	if l == nil {
		return false
	}
	if l.KeyRevoked(certificate) || l.KeyRevoked(certificate.SignatureKey) {
		return true
	}
	return l.byCA[""].revokes(certificate) ||
		l.byCA[string(certificate.SignatureKey.Marshal())].revokes(certificate)
}

func (c *revokedCertificates) revokes(certificate *ssh.Certificate) bool {
	if c == nil {
		return false
	}
	if c.keyIDs[certificate.KeyId] {
		return true
	}
	// Authorities that do not number certificates leave the serial at 0, which then means nothing.
	if certificate.Serial == 0 {
		return false
	}
	for _, r := range c.ranges {
		if r.from <= certificate.Serial && certificate.Serial <= r.to {
			return true
		}
	}
	return false
}
