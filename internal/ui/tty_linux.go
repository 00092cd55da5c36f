package ui

import "golang.org/x/sys/unix"

const GetTermios, SetTermios = unix.TCGETS, unix.TCSETS
