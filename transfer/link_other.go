//go:build !linux && !darwin && !freebsd

package transfer

import (
	"errors"
	"os"
	"time"
)

// lchtimes cannot set the times of a symbolic link here.
func lchtimes(*os.Root, string, time.Time, time.Time) error { return errors.ErrUnsupported }
