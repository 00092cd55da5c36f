//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package ui

import "golang.org/x/sys/unix"

const GetTermios, SetTermios = unix.TIOCGETA, unix.TIOCSETA
