// Package soak decides how much randomized and long tests do.
package soak

import "os"

// Runs returns many if USFTP_SOAK is set, as .ci/run does, otherwise few.
func Runs(few, many int) int {
	if os.Getenv("USFTP_SOAK") != "" {
		return many
	}
	return few
}
