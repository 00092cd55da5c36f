// Package testenv is how tests treat what a machine lacks.
package testenv

import (
	"os"
	"testing"
)

// Unavailable skips a test for want of something, or fails it where USFTP_REQUIRE=1 says that all
// must be there.
func Unavailable(tb testing.TB, reason error) {
	tb.Helper()
	if os.Getenv("USFTP_REQUIRE") == "1" {
		tb.Fatal(reason)
	}
	tb.Skip("not on this machine: ", reason)
}
