package transfer_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/usftp/usftp/transfer"
)

// TestErrorsOfRoot: os.Root names its operations after system calls, which say nothing to people.
func TestErrorsOfRoot(t *testing.T) {
	const cannot = "cannot copy d/e to t/f: "
	for want, err := range map[string]error{
		"permission denied":                        &fs.PathError{Op: "removeat", Path: "e"},
		"cannot mkdir up: permission denied":       &fs.PathError{Op: "mkdirat", Path: "up"},
		"cannot stat d: permission denied":         &fs.PathError{Op: "stat", Path: "d"},
		"cannot setstat /e: permission denied":     &fs.PathError{Op: "setstat", Path: "/e"},
		"cannot symlink x to f: permission denied": &os.LinkError{Op: "symlinkat", Old: "x", New: "f"},
	} {
		switch err := err.(type) {
		case *fs.PathError:
			err.Err = fs.ErrPermission
		case *os.LinkError:
			err.Err = fs.ErrPermission
		}
		e := &transfer.Error{Route: transfer.Route{Source: "d/e", Target: "t/f"}, Err: err}
		if got := e.Error(); got != cannot+want {
			t.Errorf("%q, not %q", got, cannot+want)
		}
	}
}
