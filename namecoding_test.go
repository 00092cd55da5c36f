package usftp_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// flipped converts names by changing the highest bit of each byte. Names with a question mark have
// no equivalent.
type flipped struct{}

func (flipped) Encode(name string) (string, error) {
	if strings.Contains(name, "?") {
		return "", errors.New("not this one")
	}
	return flip(name), nil
}

func (flipped) Decode(name string) (string, error) { return flip(name), nil }

func flip(name string) string {
	b := []byte(name)
	for i := range b {
		if b[i] != '/' {
			b[i] ^= 0x80
		}
	}
	return string(b)
}

// Whatever is called, no path leaves or comes back as it is.
func TestEveryCallConvertsNames(t *testing.T) {
	calls := maps.Clone(clientCalls)
	maps.Copy(calls, fileCalls)
	for _, name := range transfers { // they name nothing, and some have no end
		delete(calls, name)
	}
	for name, call := range calls {
		var mu sync.Mutex
		var plain []string
		r := newRig(t, sftptest.Script{Extensions: append(sftptest.OpenSSHExtensions(),
			wire.ExtensionPair{Name: wire.ExtCheckFileName, Data: ""},
			wire.ExtensionPair{Name: wire.ExtChunks, Data: "1"}),
			Intercept: func(q sftptest.Request) []sftptest.Action {
				for _, path := range []string{q.Path, q.Path2} {
					for element := range strings.SplitSeq(path, "/") {
						if element != "" && element != "." && element != ".." && element[0] < 0x80 {
							mu.Lock()
							plain = append(plain, q.String())
							mu.Unlock()
						}
					}
				}
				return nil
			}}, 0, usftp.WithNameCoding(flipped{}))
		r.server.Files.WriteFile("/"+flip("f"), noise(2<<20))
		f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		call(r.WithContext(ctx), f.WithContext(ctx))
		cancel()
		mu.Lock()
		if len(plain) > 0 {
			t.Errorf("%s sends %q", name, plain)
		}
		mu.Unlock()
	}
}

// Names are found, made and listed under what they are here.
func TestNameCoding(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0, usftp.WithNameCoding(flipped{}))
	files := r.server.Files
	files.Mkdir("/" + flip("dir"))
	f := must[*usftp.File](t)(r.Create("/dir/a"))
	ok(t, f.Close())
	ok(t, r.Symlink("a", "/dir/link"))
	if text, err := r.ReadLink("/dir/link"); text != "a" || err != nil {
		t.Errorf("the link says %q, %v", text, err)
	}
	if real, err := r.RealPath("/dir/../dir/a"); real != "/dir/a" || err != nil {
		t.Errorf("it is %q, %v", real, err)
	}
	listed := must[[]*usftp.File](t)(r.ReadDir("/dir"))
	if got := names(listed); !slices.Equal(got, []string{"/dir/a", "/dir/link"}) {
		t.Errorf("it lists %q", got)
	}
	if !files.Exists("/" + flip("dir") + "/" + flip("a")) {
		t.Errorf("there are %q", files.List())
	}
}

// What has no equivalent is an error for the file alone, on either side.
func TestNamesThatCannotBeConverted(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0, usftp.WithNameCoding(flipped{}))
	r.server.Files.WriteFile("/"+flip("good"), nil)
	r.server.Files.WriteFile("/"+flip("what?"), nil)
	if _, err := r.Create("/what?"); !errors.Is(err, usftp.ErrNameCoding) {
		t.Error(err)
	}
	listed := must[[]*usftp.File](t)(r.ReadDir("/"))
	if len(listed) != 2 {
		t.Fatalf("it lists %q", names(listed))
	}
	for _, f := range listed {
		_, err := r.Stat(f.Name())
		if f.BaseName() != "good" && !errors.Is(err, usftp.ErrNameCoding) ||
			f.BaseName() == "good" && err != nil {
			t.Errorf("%q: %v", f.Name(), err)
		}
	}
	if err := r.RemoveAll("/" + listed[0].BaseName()); err == nil && listed[0].BaseName() != "good" {
		t.Error("something else was removed")
	}
}

// oddCoding converts as a table says.
type oddCoding map[string]string

func (c oddCoding) Encode(name string) (string, error) { return c.of(name) }
func (c oddCoding) Decode(name string) (string, error) { return c.of(name) }

func (c oddCoding) of(name string) (string, error) {
	if to, odd := c[name]; odd {
		return to, nil
	}
	return name, nil
}

// A coding cannot make a name into a path, into a directory's, or into another name.
func TestNamesThatLeadElsewhereAfterConversion(t *testing.T) {
	for what, to := range map[string]string{"a separator": "dir/f", "above": "..", "the same": ".",
		"nothing": "", "a NUL": "f\x00", "another's": "taken"} {
		r := newRig(t, sftptest.Script{}, 0, usftp.WithNameCoding(oddCoding{"odd": to}))
		r.server.Files.WriteFile("/odd", nil)
		r.server.Files.WriteFile("/taken", nil)
		r.server.Files.WriteFile("/dir/f", nil)
		r.server.Files.Symlink("odd", "/link")
		before := r.server.Files.List()
		_, err := r.Create("/odd")
		for call, err := range map[string]error{"create": err, "remove": r.Remove("/odd"),
			"rename": r.Rename("/taken", "/odd")} {
			if !errors.Is(err, usftp.ErrNameCoding) {
				t.Errorf("%s: %s: %v", what, call, err)
			}
		}
		if text, err := r.ReadLink("/link"); !errors.Is(err, usftp.ErrNameCoding) {
			t.Errorf("%s: the link says %q, %v", what, text, err)
		}
		var found []string
		ok(t, r.WalkDir("/", func(name string, _ fs.DirEntry, err error) error {
			found = append(found, name)
			return nil
		}))
		if want := []string{"/", "/\x00odd", "/dir", "/dir/f", "/link", "/taken"}; !slices.Equal(found,
			want) {
			t.Errorf("%s: it lists %q", what, found)
		}
		if now := r.server.Files.List(); !slices.Equal(now, before) {
			t.Errorf("%s: there are %q", what, now)
		}
	}
}
