package wire

import "encoding/binary"

// CheckFile asks for hashes of a file or of its blocks (draft-ietf-secsh-filexfer-extensions-00,
// section 3). The answer is [CheckFileReply].
type CheckFile struct {
	Name       string // of the extension: ExtCheckFileHandle, ExtCheckFileName or ExtCheckFile
	Target     []byte // for ExtCheckFileName a path, else a handle
	Algorithms string // names separated by commas, the most wanted first
	Offset     uint64
	Length     uint64 // 0 means to the end
	BlockSize  uint32 // bytes per hash, at least 256; 0 means one hash of the whole range
}

// Append appends the packet.
func (m CheckFile) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendBytes(appendExtended(b, id, m.Name), m.Target)
	b = appendString(b, m.Algorithms)
	b = binary.BigEndian.AppendUint64(b, m.Offset)
	b = binary.BigEndian.AppendUint64(b, m.Length)
	b = binary.BigEndian.AppendUint32(b, m.BlockSize)
	return finish(b, start, 0)
}

// Parse parses the payload, which Target aliases; Name is left as it is.
func (m *CheckFile) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Target, m.Algorithms = r.Bytes(), r.String()
	m.Offset, m.Length, m.BlockSize = r.Uint64(), r.Uint64(), r.Uint32()
	return r.err
}

// CheckFileReply is the payload of the EXTENDED_REPLY to [CheckFile]. Nothing in it says how long a
// hash is or how many there are: that follows from Algorithm, and from the length and block size
// that were asked for. Apache MINA puts four bytes of length before each hash, which then count as
// part of Hashes.
type CheckFileReply struct {
	// empty, as the draft and ProFTPD have it; paramiko and Apache MINA send ExtCheckFile
	Name      string
	Algorithm string // the one used
	Hashes    []byte // one after the other
}

// Append appends the packet.
func (m CheckFileReply) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendHeader(b, TypeExtendedReply, id)
	if m.Name != "" {
		b = appendString(b, m.Name)
	}
	b = appendString(b, m.Algorithm)
	b = append(b, m.Hashes...)
	return finish(b, start, 0)
}

// Parse parses the payload, which Hashes aliases. A first string that is the extension's name is no
// algorithm but Name.
func (m *CheckFileReply) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Name, m.Algorithm = "", r.String()
	switch m.Algorithm {
	case ExtCheckFile, ExtCheckFileHandle, ExtCheckFileName:
		m.Name, m.Algorithm = m.Algorithm, r.String()
	}
	m.Hashes = r.Rest()
	return r.err
}
