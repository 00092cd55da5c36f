package sftpfs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ends are the signals that ask a program to end, whether or not it handles them. When one ends a
// program without a handler, the kernel adds SIGKILL to the pending signals of each thread.
const ends = 1<<(syscall.SIGKILL-1) | 1<<(syscall.SIGINT-1) | 1<<(syscall.SIGQUIT-1) |
	1<<(syscall.SIGTERM-1) | 1<<(syscall.SIGHUP-1)

// dies reports whether a signal is ending a thread's program. A signal for the program is pending
// until one of its threads handles it, and this one cannot while its call is under way.
func dies(tid uint32) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return true // the thread is gone, or belongs to another PID namespace
	}
	defer f.Close()
	return hasPending(f, ends)
}

// hasPending reports whether a thread's status, as the kernel prints it, shows one of the signals
// pending and not blocked.
func hasPending(status io.Reader, signals uint64) bool {
	var pending, blocked uint64
	for lines := bufio.NewScanner(status); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		switch {
		case err != nil:
		case name == "SigPnd" || name == "ShdPnd":
			pending |= set
		case name == "SigBlk":
			blocked = set
		}
	}
	return pending&^blocked&signals != 0
}
