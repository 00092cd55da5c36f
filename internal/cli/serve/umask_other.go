//go:build !unix

package serve

import (
	"errors"
	"io/fs"
)

func setUmask(fs.FileMode) error {
	return errors.New("-u: this system has no umask")
}
