//go:build darwin || freebsd

package server

import "syscall"

func accessTime(st *syscall.Stat_t) syscall.Timespec { return st.Atimespec }
