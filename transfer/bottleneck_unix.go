//go:build unix

package transfer

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns what the process has used so far, or a negative value if the system does not
// tell.
func processorTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return -1
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
