package ui

import (
	"os"
	"runtime"
	"strings"
)

// PeakMemory is what the process has taken at most, where the system tells, else what Go has.
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
