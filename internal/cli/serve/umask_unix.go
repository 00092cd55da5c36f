//go:build unix

package serve

import (
	"io/fs"
	"syscall"
)

// setUmask replaces the process's umask, as sftp-server -u does.
func setUmask(umask fs.FileMode) error {
	syscall.Umask(int(umask))
	return nil
}
