//go:build unix

package shell

import "golang.org/x/sys/unix"

func umask(mask int) error {
	unix.Umask(mask)
	return nil
}
