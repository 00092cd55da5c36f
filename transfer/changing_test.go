package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// With Changing a file that grows while it is copied, or whose size the host does not know, is
// copied up to its end, and a warning says so. Without it the error names the flag, and nothing is
// left.
func TestChangingSource(t *testing.T) {
	for name, test := range map[string]struct {
		direction way
		factor    float64 // of the size that the host tells
		grows     bool
		hidden    uint32 // attributes that the host does not send
	}{
		"a log, up":             {upload, 1, true, 0},
		"a log, down":           {download, 1, true, 0},
		"only its size is told": {download, 1, true, ^uint32(wire.AttrSize)},
		"half":                  {download, 0.5, false, 0},
		"double":                {download, 2, false, 0},
	} {
		for _, size := range []int{3000, 5 << 20} {
			data := random(size)
			more := []byte("one more line\n")
			for _, accepts := range []bool{false, true} {
				var b *bench
				source, target := "/source", filepath.Join(t.TempDir(), "target")
				var grown atomic.Bool
				b = newBench(t, sftptest.Script{HideAttrs: test.hidden, Intercept: func(
					r sftptest.Request) []sftptest.Action {
					switch {
					case test.grows && (r.Type == wire.TypeRead || r.Type == wire.TypeWrite) &&
						!grown.Swap(true):
						if test.direction == download {
							b.server.Files.Append("/source", more)
						} else if f, err := os.OpenFile(source, os.O_WRONLY|os.O_APPEND, 0); err == nil {
							f.Write(more)
							f.Close()
						}
					case test.factor != 1 && (r.Type == wire.TypeStat || r.Type == wire.TypeLstat ||
						r.Type == wire.TypeFstat):
						attrs, err := b.server.Files.Lstat("/source")
						if err != nil {
							return nil
						}
						attrs.Size = uint64(float64(attrs.Size) * test.factor)
						return []sftptest.Action{sftptest.ReplyBytes(
							string(wire.AttrsReply{Attrs: attrs}.Append(nil, r.ID)))}
					}
					return nil
				}}, sftptest.LinkConfig{})
				if test.direction == upload {
					source, target = b.local("source", data), "/target"
				} else {
					b.server.Files.WriteFile("/source", data)
					b.server.Files.SetModTime("/source", oldTime)
				}
				_, err := b.job(test.direction, source, target,
					func(j *copyJob) { j.Options.Changing = accepts })
				if !accepts {
					if !errors.Is(err, transfer.ErrSourceChanged) ||
						!strings.Contains(err.Error(), "transfer.Options.Changing") {
						t.Errorf("%s of %d bytes: %v", name, size, err)
					}
					continue
				}
				var got []byte
				if test.direction == upload {
					got = b.remote("/target")
				} else {
					got, _ = os.ReadFile(target)
				}
				if err != nil || !bytes.HasPrefix(got, data) || len(got) > size+len(more) {
					t.Errorf("%s of %d bytes: %d arrive, %v", name, size, len(got), err)
				}
				if notes := b.notes(); len(notes) != 1 || !strings.Contains(notes[0], "changed") {
					t.Errorf("%s of %d bytes: it says %q", name, size, notes)
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("%q is left", left)
				}
			}
		}
	}
}

// A file that grows arrives up to its end with Changing, also over several connections.
func TestChangingSourceOverSeveralConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := filepath.Join(t.TempDir(), "source")
		data, more := random(48<<20), []byte("one more line\n")
		if err := os.WriteFile(source, data, 0o644); err != nil {
			t.Fatal(err)
		}
		const trip = 400 * time.Millisecond
		var grown atomic.Bool
		h := &farHost{server: sftptest.NewServer(t, sftptest.Script{
			Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type == wire.TypeWrite && !grown.Swap(true) {
					f, err := os.OpenFile(source, os.O_WRONLY|os.O_APPEND, 0)
					if err == nil {
						_, err = f.Write(more)
						f.Close()
					}
					if err != nil {
						t.Error(err)
					}
				}
				return nil
			}}), link: sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2,
			Window: 2 << 20}}
		first, further, end := h.open(t, pool.Config{})
		defer end()
		result, err := uploadFile(t.Context(), pool.Host{Client: first, Name: "far", Pool: further},
			source, "/target", transfer.Options{Contents: transfer.Contents{Changing: true}})
		if err != nil || result.Stripes == 0 || result.Bytes != int64(len(data)+len(more)) {
			t.Errorf("%+v, %v", result, err)
		}
		if got, err := h.server.Files.ReadFile("/target"); err != nil ||
			!bytes.Equal(got, append(data, more...)) {
			t.Errorf("%d bytes arrived, %v", len(got), err)
		}
	})
}

// A leftover that the host does not cut is longer than a source that shrinks while the copy
// continues. With Changing the copy ends where the source does.
func TestChangingSourceShrinksBelowALeftover(t *testing.T) {
	t.Parallel()
	const size, left, shrunk = 40 << 20, 38 << 20, 36 << 20
	data := random(size)
	for name, answer := range map[string]wire.Code{"refused": wire.Failure, "not done": wire.OK} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var source string
				var second atomic.Bool
				link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
					RateBytesPerSec: 8 << 20}
				b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					switch {
					case r.Type == wire.TypeFsetstat && r.Attrs.Flags&wire.AttrSize != 0:
						return []sftptest.Action{sftptest.Refuse(answer, "")}
					case r.Type == wire.TypeWrite && second.Swap(false):
						os.Truncate(source, shrunk)
					}
					return nil
				}}, link)
				source = b.local("source", data)
				options := func(j *copyJob) {
					j.Options.Journal, j.Options.Resume = filepath.Join(b.dir, "journal"), true
					j.Options.Changing = true
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				result, err := b.jobContext(ctx, upload, source, "/target", options)
				if err == nil || result.LeftBehind == "" {
					t.Fatalf("%+v, %v", result, err)
				}
				b.server.Files.WriteFile(result.LeftBehind, data[:left]) // as several handles write it
				second.Store(true)
				result, err = b.job(upload, source, "/target", options)
				if err != nil || result.Bytes != shrunk {
					t.Fatalf("%+v, %v", result, err)
				}
				if !bytes.Equal(b.remote("/target"), data[:shrunk]) {
					t.Errorf("%d bytes arrived, or others", len(b.remote("/target")))
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("%q is left", left)
				}
			})
		})
	}
}
