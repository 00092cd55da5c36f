package clients_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

var buildDir string // is removed at the end

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "usftp"); err != nil {
		panic(err)
	}
	flag.Set("test.parallel", "4") // they mostly wait for programs
	code := testenv.InMemory(m)
	os.RemoveAll(buildDir)
	os.Exit(code)
}

// build builds our own command once, and returns its name.
var build = sync.OnceValues(func() (string, error) {
	name := filepath.Join(buildDir, "usftp")
	// without what debuggers need, which takes the linker as long as the rest
	cmd := exec.Command("go", "build", "-ldflags=-w", "-o", name, "./cmd/usftp")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return name, nil
})
