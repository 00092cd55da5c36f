//go:build !linux

package localfs

import (
	"errors"
	"io/fs"
	"os"
)

// Nothing is known of holes here, and files are read and written.
const (
	seekData = -1
	seekHole = -1
)

func isNoData(error) bool { return false }

func roomy(fs.FileInfo) bool { return false }

// Stored is how many bytes of room a file takes, its size where that is not known.
func Stored(info fs.FileInfo) int64 { return info.Size() }

func copyRange(*os.File, *os.File, int64, int64, int64) (int64, error) {
	return 0, errors.ErrUnsupported
}

func clone(*os.File, *os.File) error { return errors.ErrUnsupported }

func remote(*os.File) bool { return false }

func punch(*os.File, int64, int64) error { return errors.ErrUnsupported }
