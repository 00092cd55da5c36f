//go:build unix

package sshd

import (
	"errors"
	"syscall"
)

// outOfFiles reports whether Accept failed for lack of descriptors or memory, or because a client
// left too soon.
func outOfFiles(err error) bool {
	for _, cause := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
