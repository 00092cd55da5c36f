package usftp

import (
	"io/fs"
	"time"

	"github.com/usftp/usftp/internal/conn"
)

// keepAttrs reads an ATTRS reply and keeps what it says.
func (f *File) keepAttrs(call *conn.Call) (*FileStat, error) {
	stat, err := attrsReply(call)
	if err == nil {
		f.remember(stat)
	}
	return stat, err
}

func (f *File) remember(stat *FileStat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attrs, f.cached = *stat, true
}

// AttrsCached tells whether the file's attributes are known, so that the accessors mean something.
func (f *File) AttrsCached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cached
}

// FileStat returns the attributes that were heard last. Where none were, none of its Has methods is
// true.
func (f *File) FileStat() *FileStat {
	f.mu.Lock()
	defer f.mu.Unlock()
	stat := f.attrs
	return &stat
}

// Size returns the size in bytes as it was heard last, 0 where it was not. Like all accessors it
// asks nothing; see [File.Stat].
func (f *File) Size() int64 { return int64(f.FileStat().Size) }

// Mode returns type and permissions as they were heard last, 0 where they were not.
func (f *File) Mode() fs.FileMode {
	stat := f.FileStat()
	if !stat.HasMode() {
		return 0
	}
	return stat.FileMode()
}

// ModTime returns the time of the last modification as it was heard last, in whole seconds, the
// zero time where it was not.
func (f *File) ModTime() time.Time { return f.FileStat().ModTime() }

// IsDir tells whether the file is known to be a directory.
func (f *File) IsDir() bool { return f.Mode().IsDir() }

// IsRegular tells whether the file is known to be a regular file.
func (f *File) IsRegular() bool {
	stat := f.FileStat()
	return stat.HasMode() && stat.FileMode().IsRegular()
}

// UID returns the number of the owner as it was heard last, 0 where it was not.
func (f *File) UID() uint32 { return f.FileStat().UID }

// GID returns the number of the group as it was heard last, 0 where it was not.
func (f *File) GID() uint32 { return f.FileStat().GID }

// Info returns the attributes that were heard last as an [fs.FileInfo] whose name is the base name
// and whose Sys is a [*FileStat]. It asks nothing.
func (f *File) Info() fs.FileInfo { return fileInfo{f.BaseName(), f.FileStat()} }

// DirEntry returns the file as an [fs.DirEntry], whose name is the base name. Its Info asks the
// server, by LSTAT, only where no attributes are known.
func (f *File) DirEntry() fs.DirEntry { return dirEntry{f} }

type dirEntry struct{ file *File }

func (e dirEntry) Name() string      { return e.file.BaseName() }
func (e dirEntry) IsDir() bool       { return e.file.IsDir() }
func (e dirEntry) Type() fs.FileMode { return e.file.Mode().Type() }
func (e dirEntry) String() string    { return fs.FormatDirEntry(e) }

func (e dirEntry) Info() (fs.FileInfo, error) {
	if e.file.AttrsCached() {
		return e.file.Info(), nil
	}
	return e.file.Client().Lstat(e.file.Name())
}
