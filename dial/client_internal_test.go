package dial

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp"
)

// Servers other than OpenSSH's pass on what the program meant to speak SFTP writes to standard
// error.
func TestStartError(t *testing.T) {
	text := &usftp.NotSFTPError{Text: []byte("hello")}
	for _, c := range []struct {
		err          error
		stderr, want string
		noSFTP       bool
	}{
		{&usftp.NotSFTPError{}, "no shell for you", "SFTP did not start: no shell for you", true},
		{&usftp.NotSFTPError{}, "", new(usftp.NotSFTPError).Error(), true},
		{&usftp.LostError{Cause: io.EOF}, "no shell for you",
			"SFTP did not start: no shell for you", true},
		{&usftp.LostError{Cause: io.EOF}, "", (&usftp.LostError{Cause: io.EOF}).Error(), false},
		{text, "", text.Error(), false},
		{text, "bye", text.Error() + " (and: bye)", false},
	} {
		err := &Error{Err: &startFailure{c.err, c.stderr}}
		if got := err.Err.Error(); got != c.want || errors.Is(err, ErrNoSFTP) != c.noSFTP {
			t.Errorf("%v with %q: %q, want %q, and ErrNoSFTP: %v", c.err, c.stderr, got, c.want,
				c.noSFTP)
		}
	}
}

// TestLineWriter: a line that is too long is divided, and loses nothing.
func TestLineWriter(t *testing.T) {
	long := strings.Repeat("0123456789", tailSize/4)
	var got []string
	w := &lineWriter{emit: func(line string) { got = append(got, line) }}
	text := "one\n\n" + long + "\ntwo\n" + long[:tailSize] + "\nthree\n"
	for piece := range slices.Chunk([]byte(text), 100) {
		w.Write(piece)
	}
	want := []string{"one", long[:tailSize], long[tailSize : 2*tailSize], long[2*tailSize:], "two",
		long[:tailSize], "three"}
	if !slices.Equal(got, want) {
		t.Errorf("%d lines: %.200q", len(got), got)
	}
}
