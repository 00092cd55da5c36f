package wire

// HandleRequest is any request that carries a handle and nothing else: CLOSE (draft-02, section
// 6.3), READDIR (6.7) and FSTAT (6.8).
type HandleRequest struct {
	Type   Type
	Handle []byte
}

// Append appends the packet.
func (m HandleRequest) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendBytes(appendHeader(b, m.Type, id), m.Handle)
	return finish(b, start, 0)
}

// Parse parses the packet's body. Handle aliases it; Type is left as it is.
func (m *HandleRequest) Parse(body []byte) error {
	r := NewReader(body)
	m.Handle = r.Bytes()
	return r.err
}

// PathRequest is any request that carries a path and nothing else: REMOVE (draft-02, section 6.5),
// RMDIR (6.6), OPENDIR (6.7), STAT and LSTAT (6.8), READLINK (6.10) and REALPATH (6.11).
type PathRequest struct {
	Type Type
	Path string
}

// Append appends the packet.
func (m PathRequest) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendString(appendHeader(b, m.Type, id), m.Path)
	return finish(b, start, 0)
}

// Parse parses the packet's body; Type is left as it is.
func (m *PathRequest) Parse(body []byte) error {
	r := NewReader(body)
	m.Path = r.String()
	return r.err
}

// PathAttrs is a request that carries a path and attributes: MKDIR (draft-02, section 6.6) and
// SETSTAT (6.9).
type PathAttrs struct {
	Type  Type
	Path  string
	Attrs Attrs
}

// Append appends the packet.
func (m PathAttrs) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendString(appendHeader(b, m.Type, id), m.Path)
	b = m.Attrs.Append(b)
	return finish(b, start, 0)
}

// Parse parses the packet's body; Type is left as it is.
func (m *PathAttrs) Parse(body []byte) error {
	r := NewReader(body)
	m.Path = r.String()
	r.ReadAttrs(&m.Attrs)
	return r.err
}

// Fsetstat changes the attributes of an open file (draft-02, section 6.9).
type Fsetstat struct {
	Handle []byte
	Attrs  Attrs
}

// Append appends the packet.
func (m Fsetstat) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendBytes(appendHeader(b, TypeFsetstat, id), m.Handle)
	b = m.Attrs.Append(b)
	return finish(b, start, 0)
}

// Parse parses the packet's body. Handle aliases it.
func (m *Fsetstat) Parse(body []byte) error {
	r := NewReader(body)
	m.Handle = r.Bytes()
	r.ReadAttrs(&m.Attrs)
	return r.err
}

// Rename gives a file a new name, which must not exist (draft-02, section 6.5).
type Rename struct{ OldPath, NewPath string }

// Append appends the packet.
func (m Rename) Append(b []byte, id uint32) []byte {
	return appendTwoPaths(appendHeader(b, TypeRename, id), len(b), m.OldPath, m.NewPath)
}

// Parse parses the packet's body.
func (m *Rename) Parse(body []byte) (err error) {
	m.OldPath, m.NewPath, err = parseTwoPaths(body)
	return err
}

// Symlink makes a symbolic link (draft-02, section 6.10). First and Second are in the order of the
// wire: draft-02 puts the link's own path first, OpenSSH and the many that follow it put the target
// first (PROTOCOL, section 4.1).
type Symlink struct{ First, Second string }

// Append appends the packet.
func (m Symlink) Append(b []byte, id uint32) []byte {
	return appendTwoPaths(appendHeader(b, TypeSymlink, id), len(b), m.First, m.Second)
}

// Parse parses the packet's body.
func (m *Symlink) Parse(body []byte) (err error) {
	m.First, m.Second, err = parseTwoPaths(body)
	return err
}

// appendTwoPaths ends the packet that begins at start with two paths.
func appendTwoPaths(b []byte, start int, first, second string) []byte {
	b = appendString(b, first)
	b = appendString(b, second)
	return finish(b, start, 0)
}

func parseTwoPaths(body []byte) (first, second string, err error) {
	r := NewReader(body)
	first, second = r.String(), r.String()
	return first, second, r.err
}
