//go:build !unix

package bigconn

import "syscall"

func (c *Conn) filler(syscall.Conn) func() error { return nil }
