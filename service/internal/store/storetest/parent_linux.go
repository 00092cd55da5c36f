package storetest

import "syscall"

// diesWithParent also ends a process when the test is killed.
func diesWithParent(as *syscall.SysProcAttr) *syscall.SysProcAttr {
	made := *as
	made.Pdeathsig = syscall.SIGINT
	return &made
}
