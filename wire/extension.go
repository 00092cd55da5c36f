package wire

import "encoding/binary"

// The names of the extensions, and their versions as VERSION offers them (OpenSSH's PROTOCOL,
// section 4). An extension in another version is another request, which must not be sent (section
// 4.2).
const (
	ExtPosixRename = "posix-rename@openssh.com" // version "1"
	ExtStatVFS     = "statvfs@openssh.com"      // version "2"
	ExtFstatVFS    = "fstatvfs@openssh.com"     // version "2"
	ExtHardlink    = "hardlink@openssh.com"     // version "1"
	ExtFsync       = "fsync@openssh.com"        // version "1"
	ExtLsetstat    = "lsetstat@openssh.com"     // version "1"
	ExtLimits      = "limits@openssh.com"       // version "1"
	ExtExpandPath  = "expand-path@openssh.com"  // version "1"
	// version "1"; draft-ietf-secsh-filexfer-extensions-00, section 7
	ExtCopyData = "copy-data"
	// version "1"; draft-ietf-secsh-filexfer-extensions-00, section 5
	ExtHomeDirectory   = "home-directory"
	ExtUsersGroupsByID = "users-groups-by-id@openssh.com" // version "1"
)

// The names under which servers offer to hash files (draft-ietf-secsh-filexfer-extensions-00,
// section 3). A server that offers ExtCheckFile takes the other two as requests (ProFTPD, with "1"
// as its data); some offer those themselves (VShell, Apache MINA). Paramiko offers ExtCheckFile,
// with its algorithms as the data, and takes a request of that name with a handle.
const (
	ExtCheckFile       = "check-file"
	ExtCheckFileHandle = "check-file-handle"
	ExtCheckFileName   = "check-file-name"
)

// Two names of our own. Neither the draft nor any known server lists the algorithms that a server
// has, or names BLAKE3. A client that hashes data on the way must know the algorithm before the
// first byte.
const (
	// not a request: its data lists the algorithms, separated by commas
	ExtCheckFileAlgorithms = "check-file-algorithms@usftp"
	HashBLAKE3             = "blake3@usftp" // BLAKE3 with 32 bytes of hash
)

// ExtAbandon is an extension of our own, version "1", for a client that gives an upload up: the
// request has one handle, which it closes, and the server does not publish the file. The answer is
// [Status]. docs/abandon.md describes it.
const ExtAbandon = "abandon@usftp"

// ExtUploads is an extension of our own, version "1", of servers on which a new file appears when
// it is closed. The request, [ExtendedPath], is about the upload that will have a path; the answer
// is [Attrs]. docs/uploads.md describes it.
const ExtUploads = "uploads@usftp"

// Extended is any extended request (draft-02, section 8). The answer is [Status], [ExtendedReply],
// or another type that the extension defines.
type Extended struct {
	Name    string
	Payload []byte
}

// Append appends the packet.
func (m Extended) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = append(appendExtended(b, id, m.Name), m.Payload...)
	return finish(b, start, 0)
}

// Parse parses the packet's body. Payload aliases it.
func (m *Extended) Parse(body []byte) error {
	r := NewReader(body)
	m.Name = r.String()
	m.Payload = r.Rest()
	return r.err
}

// ExtendedReply answers an extended request (draft-02, section 8); the extension defines the
// payload.
type ExtendedReply struct{ Payload []byte }

// Append appends the packet.
func (m ExtendedReply) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = append(appendHeader(b, TypeExtendedReply, id), m.Payload...)
	return finish(b, start, 0)
}

// Parse parses the packet's body. Payload aliases it.
func (m *ExtendedReply) Parse(body []byte) error {
	m.Payload = body
	return nil
}

func appendExtended(b []byte, id uint32, name string) []byte {
	return appendString(appendHeader(b, TypeExtended, id), name)
}

// PosixRename replaces NewPath, where Rename would fail (OpenSSH's PROTOCOL, section 4.3).
type PosixRename struct{ OldPath, NewPath string }

// Append appends the packet.
func (m PosixRename) Append(b []byte, id uint32) []byte {
	return appendTwoPaths(appendExtended(b, id, ExtPosixRename), len(b), m.OldPath, m.NewPath)
}

// Parse parses the payload.
func (m *PosixRename) Parse(payload []byte) (err error) {
	m.OldPath, m.NewPath, err = parseTwoPaths(payload)
	return err
}

// Hardlink makes NewPath another name of the file at OldPath (OpenSSH's PROTOCOL, section 4.5).
type Hardlink struct{ OldPath, NewPath string }

// Append appends the packet.
func (m Hardlink) Append(b []byte, id uint32) []byte {
	return appendTwoPaths(appendExtended(b, id, ExtHardlink), len(b), m.OldPath, m.NewPath)
}

// Parse parses the payload.
func (m *Hardlink) Parse(payload []byte) (err error) {
	m.OldPath, m.NewPath, err = parseTwoPaths(payload)
	return err
}

// ExtendedPath is an extended request whose payload is one string: statvfs, expand-path
// (OpenSSH's PROTOCOL, sections 4.4 and 4.9) and [ExtUploads], whose string is a path, and
// home-directory (section 4.11), whose string is a user's name, or empty for the user who asks. The
// answer to statvfs is [StatVFSReply], to ExtUploads [Attrs], to the others [Names].
type ExtendedPath struct {
	Name string // of the extension
	Path string
}

// Append appends the packet.
func (m ExtendedPath) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendString(appendExtended(b, id, m.Name), m.Path)
	return finish(b, start, 0)
}

// Parse parses the payload; Name is left as it is.
func (m *ExtendedPath) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Path = r.String()
	return r.err
}

// ExtendedHandle is an extended request whose payload is one handle: fstatvfs and fsync (OpenSSH's
// PROTOCOL, sections 4.4 and 4.6), and [ExtAbandon]. The answer to fstatvfs is [StatVFSReply], to
// the others [Status].
type ExtendedHandle struct {
	Name   string // of the extension
	Handle []byte
}

// Append appends the packet.
func (m ExtendedHandle) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendBytes(appendExtended(b, id, m.Name), m.Handle)
	return finish(b, start, 0)
}

// Parse parses the payload, which Handle aliases; Name is left as it is.
func (m *ExtendedHandle) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Handle = r.Bytes()
	return r.err
}

// Lsetstat is like SETSTAT, but does not follow a symbolic link (OpenSSH's PROTOCOL, section 4.7).
type Lsetstat struct {
	Path  string
	Attrs Attrs
}

// Append appends the packet.
func (m Lsetstat) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendString(appendExtended(b, id, ExtLsetstat), m.Path)
	b = m.Attrs.Append(b)
	return finish(b, start, 0)
}

// Parse parses the payload.
func (m *Lsetstat) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Path = r.String()
	r.ReadAttrs(&m.Attrs)
	return r.err
}

// CopyData has the server copy Length bytes from one open file to another; a Length of 0 means to
// the end (draft-ietf-secsh-filexfer-extensions-00, section 7; OpenSSH's PROTOCOL, section 4.10).
// The answer is [Status].
type CopyData struct {
	FromHandle []byte
	FromOffset uint64
	Length     uint64
	ToHandle   []byte
	ToOffset   uint64
}

// Append appends the packet.
func (m CopyData) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendBytes(appendExtended(b, id, ExtCopyData), m.FromHandle)
	b = binary.BigEndian.AppendUint64(b, m.FromOffset)
	b = binary.BigEndian.AppendUint64(b, m.Length)
	b = appendBytes(b, m.ToHandle)
	b = binary.BigEndian.AppendUint64(b, m.ToOffset)
	return finish(b, start, 0)
}

// Parse parses the payload, which the handles alias.
func (m *CopyData) Parse(payload []byte) error {
	r := NewReader(payload)
	m.FromHandle, m.FromOffset, m.Length = r.Bytes(), r.Uint64(), r.Uint64()
	m.ToHandle, m.ToOffset = r.Bytes(), r.Uint64()
	return r.err
}
