package dial

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	own "github.com/usftp/usftp/internal/ssh"
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

// TestListsOfAServer: a server's lists are of any length, and land on a terminal or in a log.
func TestListsOfAServer(t *testing.T) {
	names := slices.Repeat([]string{strings.Repeat("x", 60), strings.Repeat("y", 10_000)}, 200)
	var log bytes.Buffer
	d := &Dialer{log: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelDebug})), asker: newAsker(new(Config))}
	l := &login{ctx: t.Context(), d: d, s: &settings{}, ring: new(keyring), watch: new(watchdog),
		anyRefused: true}
	l.watch.start(func() {})
	defer l.watch.stop()
	_, err := l.next(names, nil, nil)
	if err == nil {
		t.Fatal("a way to log in was found")
	}
	text := err.Error()
	if n := len(log.String()); n > 8<<10 {
		t.Errorf("%d bytes were logged", n)
	}
	l.failure = nil
	negotiation := l.explain(&own.NegotiationError{Theirs: names}, nil).Error()
	if max(len(text), len(negotiation)) > 8<<10 {
		t.Errorf("messages of %d and %d bytes", len(text), len(negotiation))
	}
}
