//go:build unix

package localfs

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// Links returns how many names a file has.
func Links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 1
}

// OwnerOf returns a file's owner.
func OwnerOf(info fs.FileInfo) Owner {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Owner{}
	}
	return Owner{int(stat.Uid), int(stat.Gid), true}
}

// ID identifies a file whatever its name, "" if unknown.
func ID(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(stat.Dev), 16) + ":" +
			strconv.FormatUint(uint64(stat.Ino), 16)
	}
	return ""
}

// OpenPrivate opens a file for reading and writing and creates it if needed. It refuses a file that
// belongs to somebody else or has a second name: under sudo, HOME may be another user's, who could
// have put a link there to any file that we may write.
func OpenPrivate(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || Links(info) > 1 ||
		OwnerOf(info).UID != os.Geteuid()) {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("belongs to somebody else")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Nonblock is a flag for opening a file without waiting for the other end of a named pipe.
const Nonblock = syscall.O_NONBLOCK

// OpenRegular opens a regular file for reading. It does not wait for a named pipe that took the
// file's place since it was listed.
func OpenRegular(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// OpenNoFollow is OpenRegular, but does not follow a symbolic link either.
func OpenNoFollow(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if path, ok := errors.AsType[*fs.PathError](err); ok && // ELOOP, or EMLINK on FreeBSD
		(path.Err == syscall.ELOOP || path.Err == syscall.EMLINK) {
		path.Err = ErrLink
	}
	return f, err
}
