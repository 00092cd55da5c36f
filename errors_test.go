package usftp_test

import (
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/wire"
)

// TestStatusErrorWords: the server's words follow the code's where they say more.
func TestStatusErrorWords(t *testing.T) {
	for _, test := range []struct {
		code          wire.Code
		message, want string
	}{
		{wire.NoSuchFile, "", "no such file"},
		{wire.NoSuchFile, "No such file", "no such file"},
		{wire.NoSuchFile, "open /a: no such file or directory", "no such file"}, // Go's pkg/sftp
		{wire.NoSuchFile, "archived", `no such file (the server says "archived")`},
		{wire.PermissionDenied, "quota", `permission denied (the server says "quota")`},
		{wire.Failure, "disk full", `the server says "disk full"`},
	} {
		err := &usftp.StatusError{Code: uint32(test.code), Message: test.message}
		if got := err.Error(); got != test.want {
			t.Errorf("%v, %q: %q, want %q", test.code, test.message, got, test.want)
		}
	}
}
