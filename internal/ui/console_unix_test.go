//go:build unix

package ui

import (
	"io"
	"testing"

	"github.com/creack/pty"
)

// While a question waits for its answer, progress is not drawn over it, and messages end with the
// question again.
func TestQuestionKeepsTheScreen(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	c := &Console{file: tty}
	shows := func(what, want string) {
		t.Helper()
		buf := make([]byte, len(want))
		n, err := io.ReadFull(master, buf) // the kernel may pass it on in pieces
		if got := string(buf[:n]); err != nil || got != want {
			t.Errorf("%s: the terminal gets %q, %v, not %q", what, got, err, want)
		}
	}
	c.lines = func(int) []string { return []string{"one 50%"} }
	c.redraw(nil)
	shows("before", "one 50%\r\n")
	answered := (&Console{row: &row{board: &Board{console: c}}}).ask(
		"Two's key is unknown.\nTrust it? ")
	shows("asked", "\r\x1b[1A\x1b[J")
	c.redraw(nil)
	c.Write([]byte("one: a message\n"))
	shows("a message", "\r\none: a message\r\nTrust it? ")
	answered()
	shows("answered", "one 50%\r\n")
}
