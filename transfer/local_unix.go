//go:build unix

package transfer

import (
	"io/fs"
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
	if !ok {
		return nil
	}
	// In some directories files do not get their maker's group.
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if fresh, ok := info.Sys().(*syscall.Stat_t); ok && fresh.Uid == old.Uid && fresh.Gid == old.Gid {
		return nil
	}
	return t.file.Chown(int(old.Uid), int(old.Gid))
}

// localOwner returns whose a file is.
func localOwner(info fs.FileInfo) owner {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}
	}
	return owner{int(stat.Uid), int(stat.Gid), true}
}

// fileID is what tells a file from others, whatever their names.
func fileID(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(stat.Dev), 16) + ":" + strconv.FormatUint(uint64(stat.Ino), 16)
	}
	return ""
}
