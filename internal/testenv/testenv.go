// Package testenv answers tests' questions about the machine and the process that they run in.
package testenv

import (
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// Unavailable skips a test for a reason, or fails it if USFTP_REQUIRE=1 requires that all tests
// run.
func Unavailable(tb testing.TB, reason any) {
	tb.Helper()
	if os.Getenv("USFTP_REQUIRE") == "1" {
		tb.Fatal("USFTP_REQUIRE=1, but not on this machine:", reason)
	}
	tb.Skip("not on this machine:", reason)
}

// Symlink makes a symbolic link. Without links the test cannot run: see [Unavailable].
func Symlink(tb testing.TB, target, name string) {
	tb.Helper()
	err := os.Symlink(target, name)
	if err == nil {
		_, err = os.Lstat(name) // Wine, unlike Windows, says that it has made a link, and has not
	}
	if err != nil {
		Unavailable(tb, err)
	}
}

// Program returns the path of a program. Without the program the test cannot run: see
// [Unavailable].
func Program(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Unavailable(tb, err)
	}
	return path
}

// RefusedPort returns a port of 127.0.0.1 that refuses connections until the test ends. It is the
// near end of a connection, so that no program can listen there meanwhile.
func RefusedPort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { near.Close() })
	return near.LocalAddr().(*net.TCPAddr).Port
}

// Pipes starts a program, and returns its standard input and output.
func Pipes(tb testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	tb.Helper()
	in, err := cmd.StdinPipe()
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return in, out
}

// MemoryInUse returns how much memory the process uses.
func MemoryInUse() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// disk is the directory for temporary files not [InMemory]; by default the one of TMPDIR.
var disk string

// OnDisk returns a directory on a disk, which is removed when the test ends. It is for tests of
// features that memory lacks on some systems (immutable files) or has in another form (holes).
func OnDisk(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(disk, "usftp-test")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}
