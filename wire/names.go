package wire

import "encoding/binary"

// AttrsReply is the ATTRS packet, which answers STAT, LSTAT and FSTAT (draft-02, section 7).
type AttrsReply struct{ Attrs Attrs }

// Append appends the packet.
func (m AttrsReply) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = m.Attrs.Append(appendHeader(b, TypeAttrs, id))
	return finish(b, start, 0)
}

// Parse parses the packet's body.
func (m *AttrsReply) Parse(body []byte) error {
	r := NewReader(body)
	r.ReadAttrs(&m.Attrs)
	return r.err
}

// Name is one entry of a NAME packet (draft-02, section 7).
type Name struct {
	Filename string
	LongName string // a line like those of ls -l, for people; do not parse it
	Attrs    Attrs
}

// Append appends the entry as it stands within a packet.
func (n *Name) Append(b []byte) []byte {
	b = appendString(b, n.Filename)
	b = appendString(b, n.LongName)
	return n.Attrs.Append(b)
}

// Names answers READDIR, READLINK and REALPATH (draft-02, section 7), expand-path and
// home-directory (OpenSSH's PROTOCOL, sections 4.9 and 4.11). All but READDIR are answered by one
// entry whose attributes mean nothing (draft-02, sections 6.10 and 6.11).
type Names struct{ Names []Name }

// minName is the least size of an entry: two lengths and the flags of its attributes.
const minName = 4 + 4 + 4

// Append appends the packet.
func (m Names) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = BeginNames(b, id)
	for i := range m.Names {
		b = m.Names[i].Append(b)
	}
	return FinishNames(b, start, len(m.Names))
}

// BeginNames begins a NAME packet to which entries are appended one at a time; [FinishNames] ends
// it. The packet starts at len(b).
func BeginNames(b []byte, id uint32) []byte {
	return append(appendHeader(b, TypeName, id), 0, 0, 0, 0)
}

// FinishNames fills in the length and count of the NAME packet that [BeginNames] began at start.
func FinishNames(b []byte, start, count int) []byte {
	binary.BigEndian.PutUint32(b[start+HeaderSize:], uint32(count))
	return finish(b, start, 0)
}

// Parse parses the packet's body whole. For one entry at a time, see [NameReader].
func (m *Names) Parse(body []byte) error {
	m.Names = nil
	r, err := NewNameReader(body)
	if err != nil {
		return err
	}
	if r.Remaining() > 0 {
		// NewNameReader has checked that the body has room for so many, so this is a few times the
		// body at most.
		m.Names = make([]Name, r.Remaining())
	}
	for i := range m.Names {
		if err := r.Next(&m.Names[i]); err != nil {
			return err
		}
	}
	return nil
}

// NameReader takes the entries of a NAME packet's body one at a time.
type NameReader struct {
	r         Reader
	remaining uint32
	longName  []byte
}

// NewNameReader returns a reader of the entries in body. If body is too short for as many entries
// as it says it has, the error is [ErrShort].
func NewNameReader(body []byte) (NameReader, error) {
	n := NameReader{r: NewReader(body)}
	n.remaining = n.r.Uint32()
	if n.r.err == nil && uint64(n.remaining)*minName > uint64(n.r.Len()) {
		n.r.fail()
	}
	return n, n.r.err
}

// Remaining returns how many entries are still to be read.
func (n *NameReader) Remaining() int { return int(n.remaining) }

// Next reads the next entry. When Remaining is 0 there is none, which is [ErrShort].
func (n *NameReader) Next(name *Name) error {
	n.begin()
	name.Filename, name.LongName = n.r.String(), n.r.String()
	n.r.ReadAttrs(&name.Attrs)
	return n.r.err
}

// NextEntry reads the next entry without copying: the file's name aliases the body, and so does
// LongName. When Remaining is 0 there is none, which is [ErrShort].
func (n *NameReader) NextEntry(attrs *Attrs) (filename []byte, err error) {
	n.begin()
	filename = n.r.Bytes()
	n.longName = n.r.Bytes()
	n.r.ReadAttrs(attrs)
	return filename, n.r.err
}

// LongName returns the long name of the entry that NextEntry has read.
func (n *NameReader) LongName() []byte { return n.longName }

// begin counts an entry. Without one all its fields are missing.
func (n *NameReader) begin() {
	if n.remaining == 0 {
		n.r.fail()
		return
	}
	n.remaining--
}
