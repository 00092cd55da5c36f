package wire

import "encoding/binary"

// Two extensions of our own, version "1", for several small files in one request.
// docs/small-files.md describes them. BeginFiles begins either request; the answer to ExtPutFiles
// is an [ExtendedReply] with a [FileStatus] for each file, the answer to ExtGetFiles one with a
// [GotFile] for each.
const (
	ExtPutFiles = "put-files@usftp"
	ExtGetFiles = "get-files@usftp"
)

// Bounds of a request for small files.
const (
	MostFiles   = 128      // in one request
	LargestFile = 32 << 10 // the most that a file may hold
)

// PutFsync is a flag of a [PutFile]: its contents must be on the disk before it gets its name.
const PutFsync = 1

// BeginFiles begins a request for small files, to which the files are appended; FinishFiles
// completes it. If top is not negative, the request is wrapped in a [Beneath] with that Top.
func BeginFiles(b []byte, extension string, top int) []byte {
	if top < 0 {
		return appendExtended(b, 0, extension)
	}
	b = binary.BigEndian.AppendUint32(appendExtended(b, 0, ExtBeneath), uint32(top))
	return appendString(append(b, byte(TypeExtended)), extension)
}

// FinishFiles completes a packet that begins at the beginning of b.
func FinishFiles(b []byte) []byte { return finish(b, 0, 0) }

// PutFile is a file of a request [ExtPutFiles].
type PutFile struct {
	Path      string
	Temporary string // its last element until it is complete
	Flags     uint32 // PutFsync
	Created   Attrs  // as in OPEN
	Set       Attrs  // as in FSETSTAT; nothing is set if it has no flags
	Data      []byte
}

// Append appends the file to a request.
func (m *PutFile) Append(b []byte) []byte {
	b = appendString(appendString(b, m.Path), m.Temporary)
	b = binary.BigEndian.AppendUint32(b, m.Flags)
	return appendBytes(m.Set.Append(m.Created.Append(b)), m.Data)
}

// Parse parses the next file, whose Data aliases payload, and returns the rest of payload.
func (m *PutFile) Parse(payload []byte) (rest []byte, err error) {
	r := NewReader(payload)
	m.Path, m.Temporary, m.Flags = r.String(), r.String(), r.Uint32()
	r.ReadAttrs(&m.Created)
	r.ReadAttrs(&m.Set)
	m.Data = r.Bytes()
	if len(m.Data) > LargestFile {
		r.fail()
	}
	return r.Rest(), r.err
}

// FileStatus is the result for one file of a request.
type FileStatus struct {
	Code    Code
	Message string // empty for OK
}

// Append appends the status to a reply.
func (m FileStatus) Append(b []byte) []byte {
	return appendString(binary.BigEndian.AppendUint32(b, uint32(m.Code)), m.Message)
}

// Parse parses the next status, and returns the rest of payload.
func (m *FileStatus) Parse(payload []byte) (rest []byte, err error) {
	r := NewReader(payload)
	m.Code, m.Message = Code(r.Uint32()), r.String()
	return r.Rest(), r.err
}

// GetFile is a file of a request [ExtGetFiles].
type GetFile struct {
	Path string
	Size uint32 // the size that it should have
}

// Append appends the file to a request.
func (m *GetFile) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(appendString(b, m.Path), m.Size)
}

// Parse parses the next file, and returns the rest of payload.
func (m *GetFile) Parse(payload []byte) (rest []byte, err error) {
	r := NewReader(payload)
	m.Path, m.Size = r.String(), r.Uint32()
	if m.Size > LargestFile {
		r.fail()
	}
	return r.Rest(), r.err
}

// GotFile answers for one file of a request [ExtGetFiles]. Data and Attrs follow the status only if
// that is OK.
type GotFile struct {
	FileStatus
	Data  []byte
	Attrs Attrs // after it was read
}

// Append appends the answer to a reply.
func (m *GotFile) Append(b []byte) []byte {
	if b = m.FileStatus.Append(b); m.Code != OK {
		return b
	}
	return m.Attrs.Append(appendBytes(b, m.Data))
}

// Parse parses the next answer, whose Data aliases payload, and returns the rest of payload.
func (m *GotFile) Parse(payload []byte) (rest []byte, err error) {
	if payload, err = m.FileStatus.Parse(payload); err != nil || m.Code != OK {
		return payload, err
	}
	r := NewReader(payload)
	m.Data = r.Bytes()
	r.ReadAttrs(&m.Attrs)
	return r.Rest(), r.err
}
