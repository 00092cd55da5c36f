package transfer_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/testenv"
)

func TestMain(m *testing.M) {
	// Most of these tests wait: for lost connections, and for time that must pass.
	flag.Set("test.parallel", "8")
	// Beside their fake clocks, the processor time of all of them together means nothing.
	filecopy.NewSpare = func(time.Duration) func() bool { return func() bool { return true } }
	os.Exit(testenv.InMemory(m))
}
