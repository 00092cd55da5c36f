//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package ui

import "os"

func foreground(*os.File) bool { return true }

func continuations() (continued <-chan os.Signal, stop func()) { return nil, func() {} }
