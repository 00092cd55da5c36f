package server

import "syscall"

func accessTime(st *syscall.Stat_t) syscall.Timespec { return st.Atim }
