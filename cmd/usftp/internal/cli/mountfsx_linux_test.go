package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/testenv"
)

// runFSX has fsx change a file at random and compare all that it reads with what it has written.
// Each round has different operations. fsx stops at the first call that returns an error; the
// errors in may do not fail the test. It reports whether fsx completed all operations. USFTP_FSX
// names the program, which is from crates.io: not every compiler can build it.
func runFSX(t *testing.T, name string, operations, round int, may ...syscall.Errno) bool {
	t.Helper()
	cmd := exec.Command(os.Getenv("USFTP_FSX"), "-q", "-N", fmt.Sprint(operations),
		"-S", fmt.Sprint(round+1), name)
	cmd.Dir = t.TempDir() // for what it keeps of a failure
	out, err := cmd.CombinedOutput()
	for _, errno := range may {
		if err != nil && strings.Contains(string(out), fmt.Sprintf("Os { code: %d, ", errno)) {
			return false
		}
	}
	if err != nil {
		t.Errorf("fsx, round %d: %v: %s", round, err, out)
	}
	return err == nil
}

// A file on a mount holds what was written to it, by whatever mixture of calls: for ten seconds,
// for a minute with USFTP_SOAK, or for the time that USFTP_FSX_TIME says.
func TestMountFSX(t *testing.T) {
	if os.Getenv("USFTP_FSX") == "" {
		testenv.Unavailable(t, "USFTP_FSX does not name fsx")
	}
	t.Parallel()
	length := soak.Pick(10*time.Second, time.Minute)
	if text := os.Getenv("USFTP_FSX_TIME"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		must(t, err)
	}
	m := mountFar(t)
	round := 0
	for began := time.Now(); time.Since(began) < length && !t.Failed(); round++ {
		runFSX(t, m.path("file"), 1000, round)
	}
	t.Logf("%d rounds", round)
}
