//go:build darwin || freebsd

package localfs

import "golang.org/x/sys/unix"

// renameNoReplace is not available.
func renameNoReplace(int, string, int, string) error { return unix.ENOSYS }
