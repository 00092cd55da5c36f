//go:build unix

package transfer

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// links returns how many names a file has.
func links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 1
}

// keepOwner gives the temporary file the owner of the file that it replaces, where that is another and we may.
func (t *localTarget) keepOwner() error {
	old, ok := t.before.Sys().(*syscall.Stat_t)
	if !ok || (int(old.Uid) == os.Geteuid() && int(old.Gid) == os.Getegid()) {
		return nil
	}
	return t.file.Chown(int(old.Uid), int(old.Gid))
}

// fileID is what tells a file from others, whatever their names.
func fileID(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(stat.Dev), 16) + ":" + strconv.FormatUint(uint64(stat.Ino), 16)
	}
	return ""
}
