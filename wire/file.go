package wire

import (
	"encoding/binary"
	"errors"
)

// The flags of OPEN (draft-02, section 6.3).
const (
	OpenRead      uint32 = 0x00000001
	OpenWrite     uint32 = 0x00000002
	OpenAppend    uint32 = 0x00000004
	OpenCreate    uint32 = 0x00000008
	OpenTruncate  uint32 = 0x00000010
	OpenExclusive uint32 = 0x00000020
)

// Open asks for a handle to a file (draft-02, section 6.3). The answer is [Handle] or [Status].
type Open struct {
	Path  string
	Flags uint32
	Attrs Attrs // for a file that this creates
}

// Append appends the packet.
func (m Open) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendHeader(b, TypeOpen, id)
	b = appendString(b, m.Path)
	b = binary.BigEndian.AppendUint32(b, m.Flags)
	b = m.Attrs.Append(b)
	return finish(b, start, 0)
}

// Parse parses the packet's body.
func (m *Open) Parse(body []byte) error {
	r := NewReader(body)
	m.Path, m.Flags = r.String(), r.Uint32()
	r.ReadAttrs(&m.Attrs)
	return r.err
}

// Handle answers OPEN and OPENDIR (draft-02, section 7). Only the server knows what a handle
// means. It may hold any bytes, or none.
type Handle struct{ Handle []byte }

// Append appends the packet.
func (m Handle) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendBytes(appendHeader(b, TypeHandle, id), m.Handle)
	return finish(b, start, 0)
}

// ErrHandleTooLong means that a handle has more than [MaxHandle] bytes.
var ErrHandleTooLong = errors.New("sftp: handle of more than 256 bytes")

// Parse parses the packet's body. A handle of more than [MaxHandle] bytes breaks draft-02, section
// 7, and is [ErrHandleTooLong].
func (m *Handle) Parse(body []byte) error {
	r := NewReader(body)
	m.Handle = r.Bytes()
	if len(m.Handle) > MaxHandle {
		m.Handle = nil
		return ErrHandleTooLong
	}
	return r.err
}

// Read asks for up to Length bytes at Offset (draft-02, section 6.4). The answer is [Data], which
// may be shorter, or [Status], where EOF says that the file ends at or before Offset.
type Read struct {
	Handle []byte
	Offset uint64
	Length uint32
}

// Append appends the packet.
func (m Read) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendBytes(appendHeader(b, TypeRead, id), m.Handle)
	b = binary.BigEndian.AppendUint64(b, m.Offset)
	b = binary.BigEndian.AppendUint32(b, m.Length)
	return finish(b, start, 0)
}

// Parse parses the packet's body. Handle aliases it.
func (m *Read) Parse(body []byte) error {
	r := NewReader(body)
	m.Handle, m.Offset, m.Length = r.Bytes(), r.Uint64(), r.Uint32()
	return r.err
}

// Write puts Data at Offset (draft-02, section 6.4). The answer is [Status].
type Write struct {
	Handle []byte
	Offset uint64
	Data   []byte
}

// Append appends the packet, copying Data.
func (m Write) Append(b []byte, id uint32) []byte {
	return append(m.AppendHeader(b, id), m.Data...)
}

// AppendHeader appends all of the packet but Data, whose length it counts. It appends at most
// [WriteHeaderMax] bytes.
func (m Write) AppendHeader(b []byte, id uint32) []byte {
	start := len(b)
	b = appendBytes(appendHeader(b, TypeWrite, id), m.Handle)
	b = binary.BigEndian.AppendUint64(b, m.Offset)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Data)))
	return finish(b, start, len(m.Data))
}

// WriteHeaderSize returns the number of bytes that [Write.AppendHeader] appends for a handle of the
// given length.
func WriteHeaderSize(handle int) int { return HeaderSize + 4 + handle + 8 + 4 }

// Parse parses the packet's body. Handle and Data alias it.
func (m *Write) Parse(body []byte) error {
	r := NewReader(body)
	m.Handle, m.Offset, m.Data = r.Bytes(), r.Uint64(), r.Bytes()
	return r.err
}

// Data answers READ (draft-02, section 7).
type Data struct{ Data []byte }

// Append appends the packet, copying Data.
func (m Data) Append(b []byte, id uint32) []byte {
	return append(m.AppendHeader(b, id), m.Data...)
}

// AppendHeader appends all of the packet but Data, whose length it counts: [DataHeaderSize] bytes.
func (m Data) AppendHeader(b []byte, id uint32) []byte {
	return AppendDataHeader(b, id, len(m.Data))
}

// AppendDataHeader appends the header of n bytes that are sent without having been in memory.
func AppendDataHeader(b []byte, id uint32, n int) []byte {
	start := len(b)
	b = appendHeader(b, TypeData, id)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return finish(b, start, n)
}

// Parse parses the packet's body. Data aliases it.
func (m *Data) Parse(body []byte) error {
	r := NewReader(body)
	m.Data = r.Bytes()
	return r.err
}
