package bigpipe_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/bigpipe"
)

func TestWiden(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	before, err := unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		t.Fatal(err)
	}
	bigpipe.Widen(w)
	after, err := unix.FcntlInt(r.Fd(), unix.F_GETPIPE_SZ, 0)
	if err != nil || after <= before {
		t.Errorf("the pipe had %d bytes and has %d: %v", before, after, err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bigpipe.Widen(f) // not a pipe: stays as it is
	if _, err := f.Write([]byte("x")); err != nil {
		t.Error(err)
	}
}
