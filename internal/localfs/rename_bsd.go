//go:build darwin || freebsd

package localfs

import "golang.org/x/sys/unix"

// renameNoReplace fails: the call does not exist here.
func renameNoReplace(int, string, int, string) error { return unix.ENOSYS }
