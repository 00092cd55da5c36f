//go:build !unix

package shell

import "errors"

func umask(int) error { return errors.New("there is no umask on this system") }
