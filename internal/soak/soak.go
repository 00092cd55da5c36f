// Package soak decides how much long tests do. By default they run a small share of their cases;
// with USFTP_SOAK set, all of them: in .ci/run without the race detector, and each night with it.
package soak

import "os"

// Enabled reports whether USFTP_SOAK is set.
func Enabled() bool { return os.Getenv("USFTP_SOAK") != "" }

// Pick returns full if USFTP_SOAK is set, otherwise brief.
func Pick[T any](brief, full T) T {
	if Enabled() {
		return full
	}
	return brief
}

// Share reports whether to run case i of a table: every case if USFTP_SOAK is set, otherwise one in
// n.
func Share(i, n int) bool { return Enabled() || i%n == 0 }
