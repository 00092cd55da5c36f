//go:build unix

package dial

import (
	"io/fs"
	"os"
	"syscall"
)

// tooOpen reports whether others may read a private key of ours. If so ssh ignores it.
func tooOpen(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && fi.Mode().IsRegular() && int(st.Uid) == os.Getuid() && fi.Mode().Perm()&0o077 != 0
}

// othersMayWrite reports whether anybody but us and root may change a file.
func othersMayWrite(fi fs.FileInfo) bool { return !ours(fi) || fi.Mode().Perm()&0o022 != 0 }

// ours reports whether a file belongs to the user or root.
func ours(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && (int(st.Uid) == os.Getuid() || st.Uid == 0)
}
