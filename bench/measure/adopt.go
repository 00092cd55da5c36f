package measure

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptArgument is the first argument with which this program is started again to become another
// one that adopts orphans.
const adoptArgument = "usftp-bench-adopt"

// Adopt has cmd become the parent of whatever its children leave behind, before it is started.
// sshd's process for a connection may end before the sftp-server that it started: without this, no
// process that counts has that sftp-server's time. The program must reap children that it does not
// know, as sshd does.
func Adopt(cmd *exec.Cmd) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd.Args = append([]string{self, adoptArgument, cmd.Path}, cmd.Args...)
	cmd.Path = self
	return nil
}

// The setting outlives an exec, but only a process itself can make it. It is made here, and not in
// a main, for every test's program to have it.
func init() {
	if len(os.Args) < 4 || os.Args[1] != adoptArgument {
		return
	}
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err == nil {
		err = syscall.Exec(os.Args[2], os.Args[3:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
