package transfer_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	// Most of these tests wait: for lost connections, and for time that must pass.
	flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}
