package daemon

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/usftp/usftp/internal/servetest"
)

// The test binary is also the program, if started as "usftpd", which is in PATH for the tests.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"usftpd": func() { os.Exit(Main(os.Args[1:])) }})
}

// tooLong is when a program that does not end is killed.
const tooLong = 5 * time.Minute

// An outcome is the result of running the program.
type outcome struct {
	code           int
	stdout, stderr string
}

// run runs the program in a directory with this standard input.
func run(t *testing.T, dir, stdin string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tooLong)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "usftpd", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader([]byte(stdin)), &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Both programs' tests share these.
var (
	randomData = servetest.RandomData
	writeFile  = servetest.WriteFile
	readFile   = servetest.ReadFile
)
