//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package ui

import "golang.org/x/sys/unix"

const GetTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA
