//go:build unix

package sshd

import (
	"errors"
	"math"
	"syscall"
)

// descriptors returns how many descriptors this process may have.
func descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxInt32
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}

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
