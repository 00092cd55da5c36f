//go:build !linux

package localfs

import (
	"errors"
	"io/fs"
	"os"
)

// Holes are unknown here, and files are read and written.
const (
	seekData = -1
	seekHole = -1
)

func isNoData(error) bool { return false }

func mayHaveHoles(fs.FileInfo) bool { return false }

// Stored returns how many bytes a file occupies, or its size if unknown.
func Stored(info fs.FileInfo) int64 { return info.Size() }

func copyRange(*os.File, *os.File, int64, int64, int64) (int64, error) {
	return 0, errors.ErrUnsupported
}

func clone(*os.File, *os.File) error { return errors.ErrUnsupported }

func remote(*os.File) bool { return false }

func punch(*os.File, int64, int64) error { return errors.ErrUnsupported }
