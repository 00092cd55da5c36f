//go:build !linux && !darwin && !freebsd

package server

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/usftp/usftp/wire"
)

func isNotDirectory(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

func isReadOnly(error) bool { return false }

func isInvalid(err error) bool { return errors.Is(err, syscall.EINVAL) }

func addSystemAttrs(*wire.Attrs, fs.FileInfo) {}

func systemLinkCount(fs.FileInfo) uint64 { return 0 }

func systemIdentity(fs.FileInfo) (any, bool) { return nil, false }
