//go:build linux || darwin || freebsd

package transfer_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/transfer"
)

// atomicHost is our server over a directory in which files appear when they are closed.
func atomicHost(t *testing.T, o *server.Options) (host pool.Host, dir string) {
	t.Helper()
	dir = t.TempDir()
	files, err := osfs.NewAtomic(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	stream, _ := serve(t, files, o)
	return connect(t, stream, ours), dir
}

// TestGivenUpInPlace: half of what is written in place does not appear where the host shows whole
// files only, and the copy succeeds when it is repeated.
func TestGivenUpInPlace(t *testing.T) {
	data := random(3 << 20)
	cause := errors.New("the source fails")
	host, dir := atomicHost(t, nil)
	target := filepath.Join(dir, "target")
	copyFrom := func(r io.Reader) error {
		_, err := transfer.Copy(t.Context(), transfer.Remote(host, "/target"), transfer.Reader(r),
			transfer.Options{Placement: transfer.PlaceDirect})
		return err
	}
	half := io.MultiReader(bytes.NewReader(data[:2<<20]), iotest.ErrReader(cause))
	if err := copyFrom(half); !errors.Is(err, cause) {
		t.Errorf("the copy ended with %v", err)
	}
	if info, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target is there: %v, %v", info, err)
	}
	if err := copyFrom(bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the target has %d bytes, %v", len(got), err)
	}
}
