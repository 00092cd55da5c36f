package usftp_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// withoutCopyData is what a server offers that cannot copy.
func withoutCopyData() []wire.ExtensionPair {
	var offered []wire.ExtensionPair
	for _, e := range sftptest.OpenSSHExtensions() {
		if e.Name != wire.ExtCopyData {
			offered = append(offered, e)
		}
	}
	return offered
}

// copyServers are servers that can copy, servers that cannot, and servers that say less about a
// file.
var copyServers = []struct {
	name   string
	script sftptest.Script
}{
	{"copy-data", sftptest.Script{}},
	{"through the client", sftptest.Script{Extensions: withoutCopyData()}},
	{"no attributes", sftptest.Script{HideAttrs: ^uint32(0)}},
	{"no attributes, through the client", sftptest.Script{HideAttrs: ^uint32(0),
		Extensions: withoutCopyData()}},
	{"no REALPATH", sftptest.Script{Refuse: []wire.Type{wire.TypeRealpath}}},
	{"no REALPATH, through the client", sftptest.Script{Refuse: []wire.Type{wire.TypeRealpath},
		Extensions: withoutCopyData()}},
}

func TestCopyFileOntoItself(t *testing.T) {
	for _, server := range copyServers {
		for _, c := range []struct {
			name, from, to string
			refused        bool // for certain; else the copy may find nothing wrong
		}{
			{"same name", "/d/f", "/d/f", true},
			{"same name, spelt otherwise", "/d/f", "/d/../d/./f", true},
			{"symbolic link", "/d/f", "/symbolic", false},
			{"from a symbolic link", "/symbolic", "/d/f", false},
			{"hard link", "/d/f", "/hard", false},
			{"relative", "/d/f", "d/f", false},
		} {
			t.Run(server.name+"/"+c.name, func(t *testing.T) {
				r := newRig(t, server.script, 0)
				data := noise(600_000)
				r.server.Files.WriteFile("/d/f", data)
				r.server.Files.Symlink("/d/f", "/symbolic")
				ok(t, r.Link("/d/f", "/hard"))
				_, err := r.CopyFile(c.from, c.to)
				if c.refused && !errors.Is(err, fs.ErrInvalid) {
					t.Errorf("the error is %v", err)
				}
				if got := must[[]byte](t)(r.server.Files.ReadFile("/d/f")); !bytes.Equal(got,
					data) {
					t.Errorf("the file has %d bytes now, and had %d (%v)", len(got), len(data), err)
				}
			})
		}
	}
}

func TestCopyFileOntoItselfOpenSSH(t *testing.T) {
	client := startServer(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	data := noise(600_000)
	for i, other := range []string{"f", "./f", "symbolic", "hard"} {
		t.Run(other, func(t *testing.T) {
			ok(t, os.WriteFile(name, data, 0o600))
			if i == 0 {
				ok(t, os.Symlink("f", filepath.Join(dir, "symbolic")))
				ok(t, os.Link(name, filepath.Join(dir, "hard")))
			}
			_, err := client.CopyFile(name, dir+"/"+other)
			if other != "hard" && !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("the error is %v", err)
			}
			if got := must[[]byte](t)(os.ReadFile(name)); !bytes.Equal(got, data) {
				t.Errorf("the file has %d bytes now, and had %d (%v)", len(got), len(data), err)
			}
		})
	}
}

// A file that grows between two looks is still the same file.
func TestCopyFileOntoItselfWhileItGrows(t *testing.T) {
	r := newRig(t, sftptest.Script{Refuse: []wire.Type{wire.TypeRealpath}}, 0)
	r.server.Files.WriteFile("/f", noise(1000))
	ok(t, r.Link("/f", "/hard"))
	grow := func(sftptest.Request) { ok(t, r.server.Files.Append("/f", noise(500))) }
	r.server.AddFaults(sftptest.Fault{On: wire.TypeStat, Do: sftptest.Call("grow", grow)})
	r.CopyFile("/f", "/hard")
	if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); len(got) < 1500 {
		t.Errorf("%d bytes are left of 1500", len(got))
	}
}

// The target's old contents go, whether or not it is certain that it is another file.
func TestCopyFileOverAnother(t *testing.T) {
	for _, server := range copyServers {
		for _, size := range []int{0, 1000, 600_000, 900_000} {
			t.Run(server.name, func(t *testing.T) {
				r := newRig(t, server.script, 0)
				data := noise(600_000)
				r.server.Files.WriteFile("/a", data)
				r.server.Files.WriteFile("/b", bytes.Repeat([]byte("x"), size))
				if n, err := r.CopyFile("/a", "/b"); n != int64(len(data)) || err != nil {
					t.Errorf("%d, %v", n, err)
				}
				if got := must[[]byte](t)(r.server.Files.ReadFile("/b")); !bytes.Equal(got, data) {
					t.Errorf("over %d bytes: %d bytes, or they differ", size, len(got))
				}
			})
		}
	}
}

func TestCopyRangeWithinAFile(t *testing.T) {
	for _, server := range copyServers {
		for _, c := range []struct {
			name            string
			off, length, at int64
			overlap         bool
		}{
			{"apart", 0, 100_000, 500_000, false},
			{"apart, backwards", 500_000, 100_000, 0, false},
			{"adjacent", 0, 300_000, 300_000, false},
			{"behind the end", 0, -1, 600_000, false},
			{"far behind the end", 100_000, -1, 700_000, false},
			{"forward", 0, 300_000, 1, true},
			{"backward", 1, 300_000, 0, true},
			{"to the end, forward", 0, -1, 1, true},
		} {
			if server.script.HideAttrs != 0 && c.length < 0 {
				continue // nobody knows where the end is: one handle is refused, with two it moves
			}
			for _, handles := range []string{"one handle", "two handles"} {
				t.Run(server.name+"/"+c.name+"/"+handles, func(t *testing.T) {
					r := newRig(t, server.script, 0)
					data := noise(600_000)
					r.server.Files.WriteFile("/f", data)
					from := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
					to := from
					if handles != "one handle" {
						to = must[*usftp.File](t)(r.OpenFile("/./f", os.O_RDWR, 0))
					}
					n, err := from.CopyRange(c.off, c.length, to, c.at)
					want := data
					if c.overlap {
						if !errors.Is(err, fs.ErrInvalid) {
							t.Errorf("%d, %v", n, err)
						}
					} else {
						length := c.length
						if length < 0 {
							length = int64(len(data)) - c.off
						}
						if n != length || err != nil {
							t.Errorf("%d, %v", n, err)
						}
						want = make([]byte, max(len(data), int(c.at+length)))
						copy(want, data)
						copy(want[c.at:], data[c.off:][:length])
					}
					if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); !bytes.Equal(got,
						want) {
						t.Errorf("the file is wrong: %d bytes, want %d", len(got), len(want))
					}
				})
			}
		}
	}
}

// Files in /proc have a size of 0, but contents.
func TestCopyFileOfUnknownSize(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		testenv.Unavailable(t, err)
	}
	client := startServer(t)
	name := filepath.Join(t.TempDir(), "copy")
	n := must[int64](t)(client.CopyFile("/proc/version", name))
	if got := must[[]byte](t)(os.ReadFile(name)); n == 0 || len(got) != int(n) {
		t.Errorf("%d bytes were copied, and %q is there", n, got)
	}
}

func TestCopyOnServer(t *testing.T) {
	data := noise(300_000)
	for _, extensions := range [][]wire.ExtensionPair{nil, {},
		{{Name: wire.ExtCopyData, Data: "1"}}} {
		r := newRig(t, sftptest.Script{Extensions: extensions}, 0)
		r.server.Files.WriteFile("/a", data)
		n, err := r.CopyFile("/a", "/b")
		got := must[[]byte](t)(r.server.Files.ReadFile("/b"))
		if n != int64(len(data)) || err != nil || !bytes.Equal(got, data) {
			t.Errorf("%v: %d, %v", extensions, n, err)
		}
		if reads := len(r.server.Requests(wire.TypeRead)); (reads == 0) != (extensions == nil ||
			len(extensions) == 1) {
			t.Errorf("%v: %d READs", extensions, reads)
		}
		from := must[*usftp.File](t)(r.Open("/a"))
		to := must[*usftp.File](t)(r.OpenFile("/b", os.O_RDWR, 0))
		if n, err := from.CopyRange(10, 20, to, 30); n != 20 || err != nil {
			t.Errorf("%v: %d, %v", extensions, n, err)
		}
		p := make([]byte, 20)
		if _, err := to.ReadAt(p, 30); err != nil || !bytes.Equal(p, data[10:30]) {
			t.Errorf("%v: the range differs: %v", extensions, err)
		}
		part := from.ReadRange(1000, 250_000)
		if got, err := io.ReadAll(part); err != nil || !bytes.Equal(got, data[1000:251_000]) {
			t.Errorf("%v: %d bytes of the range, %v", extensions, len(got), err)
		}
		ok(t, part.Close())
		part = from.ReadRange(299_990, 20)
		if got, err := io.ReadAll(part); !errors.Is(err, io.ErrUnexpectedEOF) ||
			!bytes.Equal(got, data[299_990:]) {
			t.Errorf("%v: beyond the end: %d bytes, %v", extensions, len(got), err)
		}
		ok(t, part.Close())
		for _, at := range []int64{300_000, 0} {
			if n, err := from.CopyRange(299_990, 20, to, at); n != 10 ||
				!errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v: beyond the end, to %d: %d, %v", extensions, at, n, err)
			}
		}
	}
}

// TestCopyThatIsOnlyClaimed: OpenSSH's server says that it has copied what there was no room for. The
// client then copies that, also if there is room again when the next piece is copied.
func TestCopyThatIsOnlyClaimed(t *testing.T) {
	for _, size := range []int{300_000, 64<<20 + 300_000} {
		r := newRig(t, sftptest.Script{}, 0)
		r.server.AddFaults(sftptest.Fault{On: wire.TypeExtended, Extension: wire.ExtCopyData, Times: 1,
			Do: sftptest.Refuse(wire.OK, "")})
		data := bytes.Repeat([]byte("data"), size/4)
		r.server.Files.WriteFile("/a", data)
		n, err := r.CopyFile("/a", "/b")
		got := must[[]byte](t)(r.server.Files.ReadFile("/b"))
		if n != int64(size) || err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %d, %v; the copy has %d and is right: %v", size, n, err, len(got),
				bytes.Equal(got, data))
		}
	}
}

// TestCopyRangeTrips: on a server that works in order, looking whether a piece has arrived takes no
// time of its own.
func TestCopyRangeTrips(t *testing.T) {
	const rtt, size = 100 * time.Millisecond, 64<<20 + 1
	for version, want := range map[string]float64{openSSH: 2, "SSH-2.0-other": 4} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{}, rtt, usftp.WithServerVersion(version))
			r.server.Files.WriteFile("/a", make([]byte, size))
			from, to := must[*usftp.File](t)(r.Open("/a")), must[*usftp.File](t)(r.Create("/b"))
			took := trips(rtt, func() {
				if n, err := from.CopyRange(0, size, to, 0); n != size || err != nil {
					t.Error(n, err)
				}
			})
			if took != want {
				t.Errorf("%s: %v round trips, want %v", version, took, want)
			}
		})
	}
}

// TestCopyFails: whichever side fails, its error is returned, with what was copied.
func TestCopyFails(t *testing.T) {
	for _, extensions := range [][]wire.ExtensionPair{nil, {}} {
		for path, kind := range map[string]wire.Type{"/a": wire.TypeRead, "/b": wire.TypeWrite} {
			if extensions == nil {
				kind = wire.TypeExtended
			}
			r := newRig(t, sftptest.Script{Extensions: extensions, Faults: []sftptest.Fault{
				{On: kind, From: 600_000, To: 1 << 40,
					Do: sftptest.Refuse(wire.PermissionDenied, "enough")},
			}}, 0)
			r.server.Files.WriteFile("/a", noise(1<<20))
			if extensions == nil {
				r.server.AddFaults(sftptest.Fault{On: kind, Extension: wire.ExtCopyData,
					Do: sftptest.Refuse(wire.PermissionDenied, "enough")})
			}
			n, err := r.CopyFile("/a", "/b")
			if n > 600_000 || !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%v, %s: %d, %v", extensions, path, n, err)
			}
			r.Stat("/")
			if _, err := r.Stat("/"); err != nil || r.server.OpenHandles() != 0 {
				t.Errorf("%v, %s: %v, %d handles are open", extensions, path, err,
					r.server.OpenHandles())
			}
		}
	}
}
