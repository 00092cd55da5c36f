package transfer_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// breaks is a source that panics after some bytes.
type breaks struct{ left int }

func (b *breaks) Read(p []byte) (int, error) {
	if b.left <= 0 {
		panic("the source is broken")
	}
	n := min(len(p), b.left)
	b.left -= n
	return n, nil
}

// If a user's function panics, the panic reaches the caller of the copy, and no temporary file and
// no goroutine is left: with one, the synctest bubble would not end.
func TestPanicsLeaveNothing(t *testing.T) {
	panics := func(kind transfer.Kind) func(transfer.Event) {
		return func(e transfer.Event) {
			if e.Kind == kind {
				panic("the listener is broken")
			}
		}
	}
	for name, test := range map[string]func(b *bench, o transfer.Options){
		"source": func(b *bench, o transfer.Options) {
			j := copyJob{Host: b.host, Direction: upload, Source: "-",
				Target: "/target", Reader: &breaks{900_000}, Options: o}
			j.Run(b.t.Context())
		},
		"upload, started": func(b *bench, o transfer.Options) {
			o.Events = panics(transfer.Started)
			uploadFile(b.t.Context(), b.host, filepath.Join(b.dir, "tree/large"),
				"/target", o)
		},
		"upload, progress": func(b *bench, o transfer.Options) {
			o.Events = panics(transfer.Progress)
			j := copyJob{Host: b.host, Source: "-", Target: "/target",
				Reader: io.LimitReader(zeros{}, 1<<30), Options: o}
			j.Run(b.t.Context())
		},
		"download, started": func(b *bench, o transfer.Options) {
			o.Events = panics(transfer.Started)
			downloadFile(b.t.Context(), b.host, "/far/large", filepath.Join(b.dir, "got"),
				o)
		},
		"tree, done": func(b *bench, o transfer.Options) {
			o.Events = panics(transfer.Done)
			uploadTree(b.t.Context(), b.host, filepath.Join(b.dir, "tree"), "/copy", o)
		},
		"tree, a file": func(b *bench, o transfer.Options) {
			o.Events = panics(transfer.Done)
			uploadTree(b.t.Context(), b.host, filepath.Join(b.dir, "tree/large"), "/copy",
				o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{},
					sftptest.LinkConfig{ToServer: 100e6, ToClient: 100e6})
				b.server.Files.WriteFile("/far/large", random(3_000_000))
				for i := range 40 {
					writeAll(t, filepath.Join(b.dir, "tree", fmt.Sprint(i)), random(1000))
				}
				writeAll(t, filepath.Join(b.dir, "tree", "large"), random(3_000_000))
				func() {
					defer func() {
						if v := recover(); v != "the source is broken" &&
							v != "the listener is broken" {
							t.Errorf("recovered %v", v)
						}
					}()
					test(b, transfer.Options{Journal: filepath.Join(b.dir, "journal"),
						Resume: true})
				}()
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
				marks, _ := filepath.Glob(filepath.Join(b.dir, "journal", "*"))
				for _, mark := range marks {
					// what is done stays, and can be continued
					if name != "tree, done" || !strings.HasSuffix(mark, ".tree.json") {
						t.Errorf("in the journal: %q", mark)
					}
				}
			})
		})
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func writeAll(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
