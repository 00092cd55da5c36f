package localfs

import "golang.org/x/sys/unix"

func renameNoReplace(in int, old string, to int, name string) error {
	return unix.Renameat2(in, old, to, name, unix.RENAME_NOREPLACE)
}
