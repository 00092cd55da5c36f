package verb

import (
	"io/fs"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/wire"
)

// TestServersOwnWords: what the server says is added where it says more than the status code.
func TestServersOwnWords(t *testing.T) {
	for _, test := range []struct {
		code    wire.Code
		message string
		want    string
	}{
		{wire.PermissionDenied, "Permission denied", "permission denied"},
		{wire.PermissionDenied, "", "permission denied"},
		{wire.PermissionDenied, "the server is read-only",
			`permission denied (the server says "the server is read-only")`},
		{wire.Failure, "Failure", "the server refused without giving a reason"},
		{wire.Failure, "quota exceeded", "quota exceeded"},
		{wire.NoSuchFile, "No such file", "no such file or directory"},
	} {
		err := &fs.PathError{Op: "remove", Path: "/a",
			Err: &usftp.StatusError{Code: uint32(test.code), Message: test.message}}
		if got := reasonOf(err); got != test.want {
			t.Errorf("%v %q: %q, want %q", test.code, test.message, got, test.want)
		}
	}
}
