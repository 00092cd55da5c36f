//go:build linux || darwin || freebsd

package daemon

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"runtime"
	"testing"
	"weak"

	"github.com/usftp/usftp/server"
	packets "github.com/usftp/usftp/wire"
)

// TestSweepKeepsNothingOpen: a directory that nobody uses any more is closed, and what was abandoned
// there is removed in time all the same.
func TestSweepKeepsNothingOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var said bytes.Buffer
	s := &sweeper{log: slog.New(slog.NewTextHandler(&said, nil))}
	files, err := s.directory(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := files.Open(t.Context(), "/f", packets.OpenWrite|packets.OpenCreate, packets.Attrs{})
	if err == nil {
		_, err = f.(io.WriterAt).WriteAt([]byte("text"), 0)
	}
	if err == nil {
		err = f.(server.FileAbandoner).Abandon()
	}
	if err != nil {
		t.Fatal(err)
	}
	at := weak.Make(files)
	f, files = nil, nil
	for deadline := 1000; at.Value() != nil && deadline > 0; deadline-- {
		runtime.GC()
	}
	if at.Value() != nil {
		t.Error("the directory is open")
	}
	left := func() int {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if s.once(t.Context(), sweepAge); left() != 1 {
		t.Errorf("%d files are left of an upload that was just abandoned", left())
	}
	if s.once(t.Context(), -sweepAge); left() != 0 {
		t.Errorf("%d files are left of an old upload", left())
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if s.once(t.Context(), sweepAge); said.Len() > 0 { // a user's directory may go
		t.Errorf("the log says %s", &said)
	}
}
