package usftp_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
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

// TestReadingADirectory: servers open a directory as a file, and answer FAILURE to the READ.
func TestReadingADirectory(t *testing.T) {
	c := newRig(t, sftptest.Script{}, 0)
	ok(t, c.Mkdir("d"))
	f, err := c.Open("d")
	ok(t, err)
	_, readErr := f.Read(make([]byte, 1))
	_, atErr := f.ReadAt(make([]byte, 1), 0)
	_, copyErr := f.WriteTo(io.Discard)
	_, fileErr := c.ReadFile("d")
	_, fsErr := c.FS().ReadFile("d")
	for _, err := range []error{readErr, atErr, copyErr, fileErr, fsErr} {
		if !errors.Is(err, syscall.EISDIR) || !errors.Is(err, usftp.ErrSSHFxFailure) ||
			!strings.HasSuffix(err.Error(), " d: is a directory") {
			t.Errorf("got %v", err)
		}
	}
}

// TestOneError: what fails once more while a file is given up is not reported as well.
func TestOneError(t *testing.T) {
	hangUp := sftptest.Fault{On: wire.TypeWrite, Do: sftptest.Hangup()}
	full := sftptest.Fault{On: wire.TypeWrite,
		Do: sftptest.Refuse(wire.NoSpaceOnFilesystem, "")}
	refused := sftptest.Fault{On: wire.TypeClose, Do: sftptest.Refuse(wire.Failure, "")}
	for _, faults := range [][]sftptest.Fault{{hangUp}, {full, refused}} {
		c := newRig(t, sftptest.Script{Extensions: []wire.ExtensionPair{}}, 0)
		ok(t, c.WriteFile("from", []byte("data"), 0o600))
		c.server.AddFaults(faults...)
		err := c.WriteFile("f", []byte("data"), 0o600)
		if _, is := err.(*fs.PathError); !is || strings.Contains(err.Error(), "\n") {
			t.Errorf("WriteFile gave a %T: %v", err, err)
		}
	}
}

func TestCloseOfNil(t *testing.T) {
	c := newRig(t, sftptest.Script{}, 0)
	f, err := c.Open("nothing")
	if closeErr := f.Close(); f != nil || err == nil || !errors.Is(closeErr, fs.ErrInvalid) {
		t.Errorf("Open gave %v and %v, and Close %v", f, err, closeErr)
	}
}

// TestTooManyOpen: the protocol has no status for too many open files.
func TestTooManyOpen(t *testing.T) {
	c := newRig(t, sftptest.Script{Limits: &wire.LimitsReply{MaxOpenHandles: 3}}, 0)
	ok(t, c.WriteFile("f", nil, 0o600))
	for range 3 {
		_, err := c.Open("f")
		ok(t, err)
	}
	_, openErr := c.Open("f")
	_, listErr := c.ReadDir(".")
	for _, err := range []error{openErr, listErr} {
		if !errors.Is(err, usftp.ErrSSHFxFailure) || !strings.HasSuffix(fmt.Sprint(err),
			": failure; the server allows 3 open files and directories, and most are open") {
			t.Errorf("got %v", err)
		}
	}
}
