//go:build !linux && !darwin && !freebsd

package localfs

import (
	"errors"
	"os"
	"time"
)

// Lchtimes sets the times of a symbolic link, which is not supported here.
func Lchtimes(*os.Root, string, time.Time, time.Time) error { return errors.ErrUnsupported }

// RenameNew fails: it is not supported here.
func RenameNew(*os.Root, string, *os.Root, string) error { return errors.ErrUnsupported }

// LinkInto fails: it is not supported here.
func LinkInto(*os.Root, string, *os.Root, string) error { return errors.ErrUnsupported }
