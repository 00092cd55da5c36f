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

// codeWords are the codes in words: OpenSSH's server's own, if it has the code.
var codeWords = [...]string{
	OK:                  "success",
	EOF:                 "end of file",
	NoSuchFile:          "no such file",
	PermissionDenied:    "permission denied",
	Failure:             "failure",
	BadMessage:          "bad message",
	NoConnection:        "no connection",
	ConnectionLost:      "connection lost",
	OpUnsupported:       "operation unsupported",
	InvalidHandle:       "invalid handle",
	NoSuchPath:          "no such path",
	FileAlreadyExists:   "file already exists",
	WriteProtect:        "write protected",
	NoMedia:             "no media in drive",
	NoSpaceOnFilesystem: "no space on filesystem",
	QuotaExceeded:       "quota exceeded",
	UnknownPrincipal:    "unknown principal",
	LockConflict:        "lock conflict",
	DirNotEmpty:         "directory not empty",
	NotADirectory:       "not a directory",
	InvalidFilename:     "invalid filename",
	LinkLoop:            "too many symbolic links",
	CannotDelete:        "cannot delete",
	InvalidParameter:    "invalid parameter",
	FileIsADirectory:    "is a directory",
	RangeLockConflict:   "byte range is locked",
	RangeLockRefused:    "byte range lock refused",
	DeletePending:       "file is being deleted",
	FileCorrupt:         "file is corrupt",
	OwnerInvalid:        "invalid owner",
	GroupInvalid:        "invalid group",
	NoMatchingRangeLock: "no such byte range lock",
}

// String returns the code in words.
func (c Code) String() string {
	if c < Code(len(codeWords)) {
		return codeWords[c]
	}
	return "status " + strconv.FormatUint(uint64(c), 10)
}

// Status answers a request that has nothing else to return, or that failed (draft-02, section 7).
type Status struct {
	Code     Code
	Message  string // in UTF-8; empty if the server sent none
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
	if r.Len() > 0 {
		m.Message = r.String()
	}
	if r.Len() > 0 {
		m.Language = r.String()
	}
	return r.err
}
