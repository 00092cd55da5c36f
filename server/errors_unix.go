//go:build unix

package server

import (
	"errors"
	"syscall"
)

func isNotDirectory(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

func isInvalid(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENAMETOOLONG)
}
