package usftp_test

import (
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestAppendSaysWhere: some servers, such as pkg/sftp's, ignore O_APPEND and write at the offset
// that they are told. So it is the file's end, whatever has moved the offset, and whoever else has
// appended.
func TestAppendSaysWhere(t *testing.T) {
	const old, text = "contents", "more"
	for name, test := range map[string]struct {
		options []usftp.ClientOption
		write   func(f *usftp.File) error
	}{
		"Write": {nil, func(f *usftp.File) error { _, err := f.Write([]byte(text)); return err }},
		"WithWriteBehind": {[]usftp.ClientOption{usftp.WithWriteBehind(1 << 20)},
			func(f *usftp.File) error { _, err := f.Write([]byte(text)); return err }},
		"Writer": {nil, func(f *usftp.File) error {
			w := f.Writer()
			if _, err := w.Write([]byte(text[:1])); err != nil {
				return err
			}
			_, err := w.Write([]byte(text[1:]))
			return err
		}},
		"ReadFrom": {nil, func(f *usftp.File) error {
			_, err := f.ReadFrom(strings.NewReader(text))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, sftptest.Script{}, 0, test.options...)
			r.server.Files.WriteFile("/f", []byte(old))
			f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR|os.O_APPEND, 0))
			p := make([]byte, 3)
			must[int](t)(f.Read(p))
			ok(t, test.write(f))
			ok(t, test.write(f))
			must[int64](t)(f.Seek(1, io.SeekStart))
			ok(t, test.write(f))
			ok(t, f.Sync())
			want := old + text + text + text
			end := uint64(len(old))
			for _, w := range r.server.Requests(wire.TypeWrite) {
				if w.Offset != end {
					t.Errorf("written at %d, want %d", w.Offset, end)
				}
				end += uint64(w.Length)
			}
			ok(t, r.server.Files.Append("/f", []byte("another's")))
			ok(t, test.write(f))
			ok(t, f.Close())
			writes := r.server.Requests(wire.TypeWrite)
			end += uint64(len("another's"))
			if last := writes[len(writes)-1]; last.Offset != end {
				t.Errorf("written at %d, over what another has appended, want %d", last.Offset, end)
			}
			if got := string(must[[]byte](t)(r.server.Files.ReadFile("/f"))); got != want+"another's"+text {
				t.Errorf("the file has %q", got)
			}
		})
	}
}

// TestAppendOfNothing: what writes nothing moves no offset, so that the next Read continues.
func TestAppendOfNothing(t *testing.T) {
	for _, behind := range []int64{0, 1 << 20} {
		r := newRig(t, sftptest.Script{}, 0, usftp.WithWriteBehind(behind))
		r.server.Files.WriteFile("/f", []byte("contents"))
		f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR|os.O_APPEND, 0))
		p := make([]byte, 3)
		must[int](t)(f.Read(p))
		must[int](t)(f.Write(nil))
		must[int64](t)(f.ReadFrom(strings.NewReader("")))
		rest := must[[]byte](t)(io.ReadAll(f))
		if string(rest) != "tents" {
			t.Errorf("the rest is %q", rest)
		}
		ok(t, f.Close())
	}
}

// TestAppendAfterAWriter: what a Writer has sent is no reason to trust the offset.
func TestAppendAfterAWriter(t *testing.T) {
	r := newRig(t, sftptest.Script{Extensions: []wire.ExtensionPair{}}, 0)
	r.server.Files.WriteFile("/f", nil)
	f := must[*usftp.File](t)(r.OpenFile("/f", os.O_WRONLY|os.O_APPEND, 0))
	sent := strings.Repeat("x", wire.DefaultMaxData)
	must[int](t)(f.Writer().Write([]byte(sent)))
	for len(r.server.Requests(wire.TypeWrite)) == 0 { // short requests overtake it
		must[fs.FileInfo](t)(r.Async().Stat("/f").Wait())
	}
	ok(t, r.server.Files.Append("/f", []byte("another's")))
	must[int](t)(f.Write([]byte("more")))
	ok(t, f.Close())
	writes := r.server.Requests(wire.TypeWrite)
	want := uint64(len(sent) + len("another's"))
	if last := writes[len(writes)-1]; last.Offset != want {
		t.Errorf("written at %d, want %d", last.Offset, want)
	}
}
