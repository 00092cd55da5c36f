package wire

import "encoding/binary"

// Limits asks for the server's limits (OpenSSH's PROTOCOL, section 4.8). The answer is
// [LimitsReply].
type Limits struct{}

// Append appends the packet.
func (m Limits) Append(b []byte, id uint32) []byte {
	start := len(b)
	return finish(appendExtended(b, id, ExtLimits), start, 0)
}

// LimitsReply is the payload of the EXTENDED_REPLY to [Limits]. 0 means that the server names no
// limit.
type LimitsReply struct {
	MaxPacket      uint64 // bytes of a packet; OpenSSH does not count the length field
	MaxRead        uint64 // the length a READ may ask for
	MaxWrite       uint64 // bytes of data in a WRITE packet
	MaxOpenHandles uint64
}

// Append appends the packet.
func (m LimitsReply) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendHeader(b, TypeExtendedReply, id)
	for _, v := range [...]uint64{m.MaxPacket, m.MaxRead, m.MaxWrite, m.MaxOpenHandles} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return finish(b, start, 0)
}

// Parse parses the payload.
func (m *LimitsReply) Parse(payload []byte) error {
	r := NewReader(payload)
	m.MaxPacket, m.MaxRead = r.Uint64(), r.Uint64()
	m.MaxWrite, m.MaxOpenHandles = r.Uint64(), r.Uint64()
	return r.err
}

// The flags of a file system (OpenSSH's PROTOCOL, section 4.4).
const (
	StatVFSReadOnly uint64 = 0x1
	StatVFSNoSetuid uint64 = 0x2
)

// StatVFSReply is the payload of the EXTENDED_REPLY to statvfs and fstatvfs: POSIX's struct statvfs
// (OpenSSH's PROTOCOL, section 4.4).
type StatVFSReply struct {
	BlockSize       uint64 // f_bsize: the file system's block size
	FragmentSize    uint64 // f_frsize: the unit of the three counts of blocks
	Blocks          uint64
	BlocksFree      uint64
	BlocksAvailable uint64 // to others than root
	Files           uint64 // inodes
	FilesFree       uint64
	FilesAvailable  uint64 // to others than root
	FSID            uint64
	Flags           uint64
	NameMax         uint64
}

// Append appends the packet.
func (m StatVFSReply) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendHeader(b, TypeExtendedReply, id)
	for _, v := range m.fields() {
		b = binary.BigEndian.AppendUint64(b, *v)
	}
	return finish(b, start, 0)
}

// Parse parses the payload.
func (m *StatVFSReply) Parse(payload []byte) error {
	r := NewReader(payload)
	for _, v := range m.fields() {
		*v = r.Uint64()
	}
	return r.err
}

// fields returns the fields in the order of the wire.
func (m *StatVFSReply) fields() [11]*uint64 {
	return [...]*uint64{&m.BlockSize, &m.FragmentSize, &m.Blocks, &m.BlocksFree,
		&m.BlocksAvailable, &m.Files, &m.FilesFree, &m.FilesAvailable, &m.FSID, &m.Flags,
		&m.NameMax}
}
