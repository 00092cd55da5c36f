package ui

import "golang.org/x/sys/unix"

const GetTermios, setTermios = unix.TCGETS, unix.TCSETS
