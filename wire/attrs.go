package wire

import (
	"encoding/binary"
	"time"
)

// The flags of ATTRS (draft-02, section 5), which say which fields are present.
const (
	AttrSize        uint32 = 0x00000001
	AttrUIDGID      uint32 = 0x00000002
	AttrPermissions uint32 = 0x00000004
	AttrACModTime   uint32 = 0x00000008
	AttrExtended    uint32 = 0x80000000
)

// Attrs are a file's attributes (draft-02, section 5). A field means something only if its flag is
// set: absent is not zero.
type Attrs struct {
	Flags       uint32
	Size        uint64
	UID, GID    uint32
	Permissions uint32 // type and mode bits as POSIX has them; see FileMode
	ATime       uint32 // seconds since 1970, until 2106; see Time
	MTime       uint32
	Extended    []ExtensionPair
}

// ExtensionPair is a name with data: an extension in INIT and VERSION, an extended attribute in
// ATTRS.
type ExtensionPair struct{ Name, Data string }

// Time returns the time that a server means by the seconds of ATTRS. Servers send the low 32 bits
// of a time before 1970 (OpenSSH's stat_to_attrib in sftp-common.c), which read as a time after
// 2038. Some mark files with a time decades ahead, such as until when they must be kept, and few
// have files from before 1960. So a time from 2096 on is taken to be from 1960 on.
func Time(seconds uint32) time.Time {
	const from1960 = 1<<32 - 315_619_200
	if seconds >= from1960 {
		return time.Unix(int64(int32(seconds)), 0)
	}
	return time.Unix(int64(seconds), 0)
}

// minPair is the least size of a pair: two lengths.
const minPair = 4 + 4

// MaxExtended limits the extended attributes of one ATTRS. Known servers send a few at most. A pair
// may take only 8 bytes in a packet, but takes several times that in memory.
const MaxExtended = 256

// Has reports whether all the given flags are set.
func (a *Attrs) Has(flags uint32) bool { return a.Flags&flags == flags }

// Append appends the attributes in the form that they have within a packet. Extended is appended
// only if AttrExtended is set.
func (a *Attrs) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, a.Flags)
	if a.Has(AttrSize) {
		b = binary.BigEndian.AppendUint64(b, a.Size)
	}
	if a.Has(AttrUIDGID) {
		b = binary.BigEndian.AppendUint32(b, a.UID)
		b = binary.BigEndian.AppendUint32(b, a.GID)
	}
	if a.Has(AttrPermissions) {
		b = binary.BigEndian.AppendUint32(b, a.Permissions)
	}
	if a.Has(AttrACModTime) {
		b = binary.BigEndian.AppendUint32(b, a.ATime)
		b = binary.BigEndian.AppendUint32(b, a.MTime)
	}
	if a.Has(AttrExtended) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(a.Extended)))
		for _, e := range a.Extended {
			b = appendString(b, e.Name)
			b = appendString(b, e.Data)
		}
	}
	return b
}

// ReadAttrs reads attributes. Draft-02, section 5, calls flags that it does not define an error;
// they are kept and otherwise ignored here, as OpenSSH does.
func (r *Reader) ReadAttrs(a *Attrs) {
	*a = Attrs{Flags: r.Uint32()}
	if a.Has(AttrSize) {
		a.Size = r.Uint64()
	}
	if a.Has(AttrUIDGID) {
		a.UID, a.GID = r.Uint32(), r.Uint32()
	}
	if a.Has(AttrPermissions) {
		a.Permissions = r.Uint32()
	}
	if a.Has(AttrACModTime) {
		a.ATime, a.MTime = r.Uint32(), r.Uint32()
	}
	if a.Has(AttrExtended) {
		count := r.Uint32()
		// Each pair has at least two lengths. Nothing is allocated for a count that cannot be true.
		if count > MaxExtended || uint64(count)*minPair > uint64(r.Len()) {
			r.fail()
			return
		}
		if count > 0 {
			a.Extended = make([]ExtensionPair, count)
		}
		for i := range a.Extended {
			a.Extended[i] = ExtensionPair{Name: r.String(), Data: r.String()}
		}
	}
}
