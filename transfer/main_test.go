package transfer_test

import (
	"flag"
	"os"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

func TestMain(m *testing.M) {
	// Most of these tests wait: for lost connections, and for time that must pass.
	flag.Set("test.parallel", "8")
	os.Exit(testenv.InMemory(m))
}
