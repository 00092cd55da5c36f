package ui

import (
	"os"
	"runtime"
	"strings"
)

// PeakMemory returns the process's peak memory use if the system reports it, otherwise Go's.
func PeakMemory() string {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				return strings.TrimSpace(value)
			}
		}
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return Amount(float64(stats.Sys))
}
