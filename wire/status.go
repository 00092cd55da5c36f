package wire

import (
	"encoding/binary"
	"strconv"
)

// Code is the answer a STATUS packet carries (draft-02, section 7).
type Code uint32

// The codes of draft-02, section 7. NoConnection and ConnectionLost are for clients to return: a
// server must not send them.
const (
	OK               Code = 0
	EOF              Code = 1
	NoSuchFile       Code = 2
	PermissionDenied Code = 3
	Failure          Code = 4
	BadMessage       Code = 5
	NoConnection     Code = 6
	ConnectionLost   Code = 7
	OpUnsupported    Code = 8
)

// The codes of later drafts (draft-13, section 9.1), which some servers use even in version 3.
const (
	InvalidHandle       Code = 9
	NoSuchPath          Code = 10
	FileAlreadyExists   Code = 11
	WriteProtect        Code = 12
	NoMedia             Code = 13
	NoSpaceOnFilesystem Code = 14
	QuotaExceeded       Code = 15
	UnknownPrincipal    Code = 16
	LockConflict        Code = 17
	DirNotEmpty         Code = 18
	NotADirectory       Code = 19
	InvalidFilename     Code = 20
	LinkLoop            Code = 21
	CannotDelete        Code = 22
	InvalidParameter    Code = 23
	FileIsADirectory    Code = 24
	RangeLockConflict   Code = 25
	RangeLockRefused    Code = 26
	DeletePending       Code = 27
	FileCorrupt         Code = 28
	OwnerInvalid        Code = 29
	GroupInvalid        Code = 30
	NoMatchingRangeLock Code = 31
)

// String returns the code in words, in those of OpenSSH's server if it has the code.
func (c Code) String() string {
	switch c {
	case OK:
		return "success"
	case EOF:
		return "end of file"
	case NoSuchFile:
		return "no such file"
	case PermissionDenied:
		return "permission denied"
	case Failure:
		return "failure"
	case BadMessage:
		return "bad message"
	case NoConnection:
		return "no connection"
	case ConnectionLost:
		return "connection lost"
	case OpUnsupported:
		return "operation unsupported"
	case InvalidHandle:
		return "invalid handle"
	case NoSuchPath:
		return "no such path"
	case FileAlreadyExists:
		return "file already exists"
	case WriteProtect:
		return "write protected"
	case NoMedia:
		return "no media in drive"
	case NoSpaceOnFilesystem:
		return "no space on filesystem"
	case QuotaExceeded:
		return "quota exceeded"
	case UnknownPrincipal:
		return "unknown principal"
	case LockConflict:
		return "lock conflict"
	case DirNotEmpty:
		return "directory not empty"
	case NotADirectory:
		return "not a directory"
	case InvalidFilename:
		return "invalid filename"
	case LinkLoop:
		return "too many symbolic links"
	case CannotDelete:
		return "cannot delete"
	case InvalidParameter:
		return "invalid parameter"
	case FileIsADirectory:
		return "is a directory"
	case RangeLockConflict:
		return "byte range is locked"
	case RangeLockRefused:
		return "byte range lock refused"
	case DeletePending:
		return "file is being deleted"
	case FileCorrupt:
		return "file is corrupt"
	case OwnerInvalid:
		return "invalid owner"
	case GroupInvalid:
		return "invalid group"
	case NoMatchingRangeLock:
		return "no such byte range lock"
	}
	return "status " + strconv.FormatUint(uint64(c), 10)
}

// Status answers a request that has nothing else to return, or that failed (draft-02, section 7).
type Status struct {
	Code     Code
	Message  string // in UTF-8; empty where the server sent none
	Language string // RFC 1766 tag
}

// Append appends the packet.
func (m Status) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendHeader(b, TypeStatus, id)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Code))
	b = appendString(b, m.Message)
	b = appendString(b, m.Language)
	return finish(b, start, 0)
}

// Parse parses the packet's body. Message and language may be missing: they came with version 3
// (draft-02, section 10.1), and some servers of today still leave out one or both.
func (m *Status) Parse(body []byte) error {
	r := NewReader(body)
	*m = Status{Code: Code(r.Uint32())}
	if r.err == nil && r.Len() > 0 {
		m.Message = r.String()
	}
	if r.err == nil && r.Len() > 0 {
		m.Language = r.String()
	}
	return r.err
}
