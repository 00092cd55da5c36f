package objectfs_test

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/usftp/usftp/wire"
)

// TestSettledMeanwhile: a file that appears just when a client asks for it is there: as an upload, or
// as what has become of it. RENAME may say that it is still an upload.
func TestSettledMeanwhile(t *testing.T) {
	for name, ask := range map[string]func(b *bench) error{
		"STAT": func(b *bench) error {
			_, err := b.fs.Stat(b.Context(), "/f")
			return err
		},
		"OPEN": func(b *bench) error {
			f, err := b.fs.Open(b.Context(), "/f", wire.OpenRead, wire.Attrs{})
			if err == nil {
				text := make([]byte, 4)
				_, err = f.(io.ReaderAt).ReadAt(text, 0)
				f.Close()
			}
			return err
		},
		"SETSTAT": func(b *bench) error { return b.fs.Setstat(b.Context(), "/f", timed(7)) },
		"RENAME":  func(b *bench) error { return b.fs.Rename(b.Context(), "/f", "/g") },
	} {
		b := newBench(t)
		w := b.write("/f", truncate)
		b.at(w, 0, "text")
		b.fs = b.serve(&listed{b.bucket, func() { b.must(w.Close()) }})
		if err := ask(b); err != nil && (name != "RENAME" || errors.Is(err, fs.ErrNotExist)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
