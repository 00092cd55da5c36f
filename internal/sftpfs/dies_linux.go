package sftpfs

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dies reports whether a fatal signal is pending for a thread. The kernel adds SIGKILL to what is
// pending for each thread of a program that a signal ends.
func dies(tid uint32) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return true // it is gone, or belongs to another PID namespace
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name == "SigPnd" || name == "ShdPnd" {
			pending, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err == nil && pending&(1<<(syscall.SIGKILL-1)) != 0 {
				return true
			}
		}
	}
	return false
}
