//go:build !unix

package server

import (
	"errors"
	"syscall"
)

func isNotDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

func isReadOnly(error) bool { return false }

func isInvalid(err error) bool { return errors.Is(err, syscall.EINVAL) }
