package dial

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	// Those that run beside each other mostly wait: for servers, and for time that must pass.
	flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}
