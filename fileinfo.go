package usftp

import (
	"io/fs"
	"math"
	"time"

	"github.com/usftp/usftp/wire"
)

// FileStat holds the attributes that a server sent of a file (draft-02, section 5). A server may
// leave any of them out: Has tells which were present, and the value of one that was not is 0
// without meaning anything.
type FileStat struct {
	Size     uint64 // bytes
	Mode     uint32 // POSIX mode bits, type included
	Mtime    uint32 // seconds since 1970, until 2106
	Atime    uint32
	UID      uint32
	GID      uint32
	Extended []StatExtended

	present uint32
}

// StatExtended is an attribute that the protocol does not define.
type StatExtended struct{ ExtType, ExtData string }

// HasSize tells whether the server sent the size.
func (s *FileStat) HasSize() bool { return s.present&wire.AttrSize != 0 }

// HasMode tells whether the server sent the mode.
func (s *FileStat) HasMode() bool { return s.present&wire.AttrPermissions != 0 }

// HasTimes tells whether the server sent the times of the last access and modification.
func (s *FileStat) HasTimes() bool { return s.present&wire.AttrACModTime != 0 }

// HasOwner tells whether the server sent the numbers of owner and group.
func (s *FileStat) HasOwner() bool { return s.present&wire.AttrUIDGID != 0 }

// sized tells whether the size is known, and means something: only that of a regular file does.
func (s *FileStat) sized() bool {
	return s.HasSize() && s.Size <= math.MaxInt64 && s.FileMode().IsRegular()
}

// differs reports whether any attribute that both have is another; reading a file does not change
// those.
func (s *FileStat) differs(o *FileStat) bool {
	both := s.present & o.present
	return both&wire.AttrSize != 0 && s.Size != o.Size ||
		both&wire.AttrPermissions != 0 && s.Mode != o.Mode ||
		both&wire.AttrACModTime != 0 && s.Mtime != o.Mtime ||
		both&wire.AttrUIDGID != 0 && (s.UID != o.UID || s.GID != o.GID)
}

// FileMode returns the mode as package fs has it.
func (s *FileStat) FileMode() fs.FileMode { return wire.FileMode(s.Mode) }

// ModTime returns the time of the last modification, the zero time where the server sent none.
func (s *FileStat) ModTime() time.Time {
	if !s.HasTimes() {
		return time.Time{}
	}
	return time.Unix(int64(s.Mtime), 0)
}

// AccessTime returns the time of the last access, the zero time where the server sent none.
func (s *FileStat) AccessTime() time.Time {
	if !s.HasTimes() {
		return time.Time{}
	}
	return time.Unix(int64(s.Atime), 0)
}

func newFileStat(a *wire.Attrs) FileStat {
	s := FileStat{
		Size: a.Size, Mode: a.Permissions, Mtime: a.MTime, Atime: a.ATime, UID: a.UID, GID: a.GID, present: a.Flags,
	}
	if len(a.Extended) > 0 {
		s.Extended = make([]StatExtended, 0, len(a.Extended))
	}
	for _, e := range a.Extended {
		s.Extended = append(s.Extended, StatExtended{ExtType: e.Name, ExtData: e.Data})
	}
	return s
}

// fileInfo is the fs.FileInfo of a remote file.
type fileInfo struct {
	name string
	stat *FileStat
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return int64(i.stat.Size) }
func (i fileInfo) Mode() fs.FileMode  { return i.stat.FileMode() }
func (i fileInfo) ModTime() time.Time { return i.stat.ModTime() }
func (i fileInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i fileInfo) Sys() any           { return i.stat }
func (i fileInfo) String() string     { return fs.FormatFileInfo(i) }
