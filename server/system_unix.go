//go:build linux || darwin || freebsd

package server

import (
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/usftp/usftp/wire"
)

func isNotDirectory(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

func isInvalid(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENAMETOOLONG)
}

func addSystemAttrs(attrs *wire.Attrs, info fs.FileInfo) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	attrs.Flags |= wire.AttrUIDGID
	attrs.UID, attrs.GID = st.Uid, st.Gid
	atime := accessTime(st)
	attrs.ATime = Seconds(time.Unix(atime.Unix()))
}

func systemLinkCount(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 0
}

// systemIdentity returns the numbers by which the system identifies a file.
func systemIdentity(info fs.FileInfo) (id any, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, false
	}
	return [2]uint64{uint64(st.Dev), uint64(st.Ino)}, true
}
