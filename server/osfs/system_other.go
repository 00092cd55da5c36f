//go:build !linux && !darwin && !freebsd && !windows

package osfs

import (
	"errors"
	"io/fs"
	"os"

	"github.com/usftp/usftp/wire"
)

func identify(info fs.FileInfo, _ *os.File) fs.FileInfo { return info }

func markJunction(info fs.FileInfo) fs.FileInfo { return info }

func markListed(info fs.FileInfo) fs.FileInfo { return info }

func statVFSOpen(*os.File) (wire.StatVFSReply, error) {
	return wire.StatVFSReply{}, errors.ErrUnsupported
}
