//go:build !unix

package cli

import (
	"errors"
	"io/fs"
)

func setUmask(fs.FileMode) error {
	return errors.New("-u: this system has no umask")
}
