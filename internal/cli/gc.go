package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Package x/crypto/ssh makes a garbage copy of every packet. With little alive, Go's default has the collector run many hundred times a
// GiB; with four times as much allowed between two runs it costs a quarter less processor time. The limit bounds what that may take.
const (
	gcPercent   = 400
	memoryLimit = 24 << 20
)

// tuneMemory sets the collector for a program that copies, unless the environment does.
func tuneMemory() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// peakMemory is what the process has taken at most, where the system tells, else what Go has.
func peakMemory() string {
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
	return amount(float64(stats.Sys))
}
