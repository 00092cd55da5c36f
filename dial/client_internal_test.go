package dial

import (
	"io"
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
	}{
		{&usftp.NotSFTPError{}, "no shell for you", "SFTP did not start: no shell for you"},
		{&usftp.LostError{Cause: io.EOF}, "no shell for you",
			"SFTP did not start: no shell for you"},
		{text, "", text.Error()},
		{text, "bye", text.Error() + " (and: bye)"},
	} {
		if got := (&startFailure{c.err, c.stderr}).Error(); got != c.want {
			t.Errorf("%v with %q: %q, want %q", c.err, c.stderr, got, c.want)
		}
	}
}
