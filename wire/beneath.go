package wire

// ExtBeneath is our own extension, version "1": a request that follows no symbolic link beneath a
// directory, so that someone who may write there cannot redirect it. docs/beneath.md describes it.
const ExtBeneath = "beneath@usftp"

// Beneath wraps a REMOVE, RMDIR or RENAME. The answer is [Status].
type Beneath struct {
	Request Type   // [TypeRemove], [TypeRmdir] or [TypeRename]
	Top     string // a directory; links on the way to it are followed
	Path    string // relative to Top; no link is followed on the way
	NewPath string // the same, for a RENAME; not sent with the others
}

// Append appends the packet.
func (m Beneath) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = append(appendExtended(b, id, ExtBeneath), byte(m.Request))
	b = appendString(b, m.Top)
	b = appendString(b, m.Path)
	if m.Request == TypeRename {
		b = appendString(b, m.NewPath)
	}
	return finish(b, start, 0)
}

// Parse parses the payload.
func (m *Beneath) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Request, m.Top, m.Path, m.NewPath = Type(r.Byte()), r.String(), r.String(), ""
	if m.Request == TypeRename {
		m.NewPath = r.String()
	}
	return r.err
}
