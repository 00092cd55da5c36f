// Package testenv is what tests ask about the machine and the process that they run in.
package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// Unavailable skips a test for a reason, or fails it if USFTP_REQUIRE=1 says that everything must
// be there.
func Unavailable(tb testing.TB, reason any) {
	tb.Helper()
	if os.Getenv("USFTP_REQUIRE") == "1" {
		tb.Fatal("USFTP_REQUIRE=1, but not on this machine:", reason)
	}
	tb.Skip("not on this machine:", reason)
}

// Program returns the path of a program. Without the program the test cannot run: see [Unavailable].
func Program(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Unavailable(tb, err)
	}
	return path
}
