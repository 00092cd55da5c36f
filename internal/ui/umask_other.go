//go:build !unix

package ui

import "errors"

func SetUmask(uint32) error { return errors.New("this system has no umask") }
