package wire

import "encoding/binary"

// CheckFile asks for hashes of a file or of its blocks (draft-ietf-secsh-filexfer-extensions-00, section 3). The answer is
// [CheckFileReply].
type CheckFile struct {
	Name       string // of the extension: ExtCheckFileHandle, ExtCheckFileName or ExtCheckFile
	Target     []byte // a handle, or for ExtCheckFileName a path
	Algorithms string // names separated by commas, the most wanted first
	Offset     uint64
	Length     uint64 // 0 means to the end
	BlockSize  uint32 // bytes a hash is taken of, at least 256; 0 means one hash of the whole range
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

// CheckFileReply is the payload of the EXTENDED_REPLY to [CheckFile].
type CheckFileReply struct {
	Algorithm string // the one that was used
	Hashes    []byte // one after the other
}

// Append appends the packet.
func (m CheckFileReply) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendString(appendHeader(b, TypeExtendedReply, id), ExtCheckFile)
	b = appendString(b, m.Algorithm)
	b = append(b, m.Hashes...)
	return finish(b, start, 0)
}

// Parse parses the payload, which Hashes aliases. The payload begins with the word "check-file", which some servers leave
// out.
func (m *CheckFileReply) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Algorithm = r.String()
	switch m.Algorithm {
	case ExtCheckFile, ExtCheckFileHandle, ExtCheckFileName:
		m.Algorithm = r.String()
	}
	m.Hashes = r.Rest()
	return r.err
}
