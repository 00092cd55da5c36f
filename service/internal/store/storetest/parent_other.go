//go:build unix && !linux

package storetest

import "syscall"

func diesWithParent(as *syscall.SysProcAttr) *syscall.SysProcAttr { return as }
