package kept_test

import (
	"errors"
	"os"
	"testing"

	"github.com/usftp/usftp/server/internal/kept"
)

// TestKept: in a request of several steps a directory is opened once for each key, and closed at
// the end. Elsewhere each step opens and closes its own.
func TestKept(t *testing.T) {
	opened := 0
	open := func() (*os.File, error) {
		opened++
		return os.Open(t.TempDir())
	}
	ctx, end := kept.With(t.Context())
	var files []*os.File
	for _, key := range []string{"a", "b", "a", "a"} {
		f, release, err := kept.Open(ctx, key, open)
		if err != nil {
			t.Fatal(err)
		}
		release()
		files = append(files, f)
	}
	if opened != 2 || files[0] != files[2] || files[0] == files[1] {
		t.Errorf("%d were opened", opened)
	}
	if _, err := files[0].Stat(); err != nil {
		t.Errorf("it is closed before the end: %v", err)
	}
	end()
	for i, f := range files {
		if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("file %d is not closed: %v", i, err)
		}
	}
	for range 2 {
		f, release, err := kept.Open(t.Context(), "a", open)
		if err != nil {
			t.Fatal(err)
		}
		release()
		if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("it is not closed: %v", err)
		}
	}
	if opened != 4 {
		t.Errorf("%d were opened", opened)
	}
	ctx, end = kept.With(t.Context())
	defer end()
	for key := range 9 { // no more than a few stay open
		f, release, err := kept.Open(ctx, key, open)
		if err != nil {
			t.Fatal(err)
		}
		release()
		_, err = f.Stat()
		if (err == nil) != (key < 4) {
			t.Errorf("file %d: %v", key, err)
		}
	}
	if _, _, err := kept.Open(t.Context(), "a", func() (*os.File, error) {
		return nil, os.ErrPermission
	}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a failure is %v", err)
	}
}
