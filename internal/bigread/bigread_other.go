//go:build !unix

package bigread

import "syscall"

func (c *Conn) filler(syscall.Conn) func() error { return nil }
