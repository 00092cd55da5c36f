package usftp_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
)

// TestOtherWay: a file that is open for reading only is not written, and the other way round. No
// server is asked: OpenSSH's says that there is no such file.
func TestOtherWay(t *testing.T) {
	p := []byte("data")
	type call func(f, other *usftp.File) (int64, error)
	counted := func(n int, err error) (int64, error) { return int64(n), err }
	reads := map[string]call{
		"Read":    func(f, _ *usftp.File) (int64, error) { return counted(f.Read(p)) },
		"ReadAt":  func(f, _ *usftp.File) (int64, error) { return counted(f.ReadAt(p, 0)) },
		"WriteTo": func(f, _ *usftp.File) (int64, error) { return f.WriteTo(io.Discard) },
		"ReadRange": func(f, _ *usftp.File) (int64, error) {
			r := f.ReadRange(0, 1)
			defer r.Close()
			return counted(r.Read(p))
		},
		"CopyRange": func(f, other *usftp.File) (int64, error) { return f.CopyRange(0, 1, other, 0) },
		"Async": func(f, _ *usftp.File) (int64, error) {
			return counted(f.Async().ReadAt(p, 0).Wait())
		},
	}
	writes := map[string]call{
		"Write":    func(f, _ *usftp.File) (int64, error) { return counted(f.Write(p)) },
		"WriteAt":  func(f, _ *usftp.File) (int64, error) { return counted(f.WriteAt(p, 0)) },
		"ReadFrom": func(f, _ *usftp.File) (int64, error) { return f.ReadFrom(bytes.NewReader(p)) },
		"Writer":   func(f, _ *usftp.File) (int64, error) { return counted(f.Writer().Write(p)) },
		"CopyRange": func(f, other *usftp.File) (int64, error) {
			return other.CopyRange(0, 1, f, 0)
		},
		"Async": func(f, _ *usftp.File) (int64, error) {
			return counted(f.Async().WriteAt(p, 0).Wait())
		},
	}
	for _, behind := range []int64{0, 1 << 20} {
		r := newRig(t, sftptest.Script{}, 0, usftp.WithWriteBehind(behind))
		r.server.Files.WriteFile("/f", []byte("contents"))
		r.server.Files.WriteFile("/other", []byte("contents"))
		for flag, calls := range map[int]map[string]call{os.O_WRONLY: reads, os.O_RDONLY: writes} {
			f := must[*usftp.File](t)(r.OpenFile("/f", flag, 0))
			other := must[*usftp.File](t)(r.OpenFile("/other", os.O_RDWR, 0))
			before := len(r.server.Requests())
			for name, call := range calls {
				if n, err := call(f, other); n != 0 || !errors.Is(err, fs.ErrInvalid) ||
					errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %d, %v", name, n, err)
				}
			}
			if after := len(r.server.Requests()); after > before {
				t.Errorf("%d requests were sent", after-before)
			}
			ok(t, f.Close())
			ok(t, other.Close())
		}
	}
}
