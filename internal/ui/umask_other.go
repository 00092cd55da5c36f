//go:build !unix

package ui

import "errors"

// Umask returns the usual umask: this system has none.
func Umask() uint32 { return 0o022 }

func SetUmask(uint32) error { return errors.New("this system has no umask") }
