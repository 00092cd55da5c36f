package transfer_test

import (
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/usftp/usftp"
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

// TestErrorsOfNames: there is no error of its own for a name that a file system does not take, such
// as a:b on FAT. A listing that breaks off names its directory as the sentence does.
func TestErrorsOfNames(t *testing.T) {
	const cannot = "cannot copy d/a:b to t/a:b: "
	const perhaps = "; perhaps the file system does not take this name"
	bad := &usftp.StatusError{Code: uint32(usftp.ErrSSHFxBadMessage)}
	for _, test := range []struct {
		op, path string
		err      error
		want     string
	}{
		{"openat", "a:b", syscall.EINVAL, syscall.EINVAL.Error() + perhaps},
		{"mkdir", "t/a:b", syscall.EINVAL, syscall.EINVAL.Error() + perhaps},
		{"open", "t/a:b", bad, "bad message" + perhaps},
		{"write", "t/a:b", syscall.EINVAL, syscall.EINVAL.Error()},
		{"open", "t/a:b", syscall.EIO, syscall.EIO.Error()},
		{"readdirent", "d/a:b/./.", syscall.EIO, syscall.EIO.Error()},
	} {
		e := &transfer.Error{Route: transfer.Route{Source: "d/a:b", Target: "t/a:b"},
			Err: &fs.PathError{Op: test.op, Path: test.path, Err: test.err}}
		if got := e.Error(); got != cannot+test.want {
			t.Errorf("%q, not %q", got, cannot+test.want)
		}
	}
}
