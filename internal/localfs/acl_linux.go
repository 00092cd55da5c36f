package localfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const accessList = "system.posix_acl_access"

// KeepACL gives a new file the access control list of the file that it replaces, a name in the
// directory in. If that has none, the new file loses any list that it got from the directory. The
// mode alone would change who has access: with a list, its bits for the group are the most that
// anybody in the list gets, and say nothing about the group.
func KeepACL(in *os.Root, old string, file *os.File) error {
	dir, err := in.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return withFDs(file, dir, func(file, dir int) error {
		// opening the name may take a permission that we do not have
		old := fmt.Sprintf("/proc/self/fd/%d/%s", dir, old)
		n, err := unix.Lgetxattr(old, accessList, nil)
		list := make([]byte, max(n, 0))
		if n > 0 {
			n, err = unix.Lgetxattr(old, accessList, list)
		}
		switch {
		case err == nil && n > 0:
			return unix.Fsetxattr(file, accessList, list[:n], 0)
		case err == unix.ENODATA:
			unix.Fremovexattr(file, accessList) // fails if there is none
		}
		return nil // the file system has no lists, or there is no /proc
	})
}
