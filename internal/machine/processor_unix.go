//go:build unix

package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns the processor time used by the process so far, or a negative value if the
// system does not report it.
func ProcessorTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return -1
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
