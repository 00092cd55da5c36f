package usftp_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// withoutCopyData is what a server offers that copies nothing by itself.
func withoutCopyData() []wire.ExtensionPair {
	var offered []wire.ExtensionPair
	for _, e := range sftptest.OpenSSHExtensions() {
		if e.Name != wire.ExtCopyData {
			offered = append(offered, e)
		}
	}
	return offered
}

// copyServers are servers that copy by themselves and others, and those that tell less of a file.
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
				if got := must[[]byte](t)(r.server.Files.ReadFile("/d/f")); !bytes.Equal(got, data) {
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

// A file that grows between two looks at it is not another one.
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

// What stands in the target goes, whether or not it is certain that it is another file.
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
			for _, handles := range []string{"one handle", "two handles"} {
				t.Run(server.name+"/"+c.name+"/"+handles, func(t *testing.T) {
					if server.script.HideAttrs != 0 && c.length < 0 {
						t.Skip("without a size nobody knows where the end is: one handle is refused, with two the end moves")
					}
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
					if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); !bytes.Equal(got, want) {
						t.Errorf("the file is wrong: %d bytes, want %d", len(got), len(want))
					}
				})
			}
		}
	}
}

// Files of /proc have a size of 0 and contents.
func TestCopyFileOfUnknownSize(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("there is no /proc here")
	}
	client := startServer(t)
	name := filepath.Join(t.TempDir(), "copy")
	n := must[int64](t)(client.CopyFile("/proc/version", name))
	if got := must[[]byte](t)(os.ReadFile(name)); n == 0 || len(got) != int(n) {
		t.Errorf("%d bytes were copied, and %q is there", n, got)
	}
}

// A file has one offset, so that one cannot be read and written in one call; it must not wait for
// itself.
func TestFileToItself(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/f", noise(1000))
	f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
	for name, call := range map[string]func() (int64, error){
		"ReadFrom":        func() (int64, error) { return f.ReadFrom(f) },
		"WriteTo":         func() (int64, error) { return f.WriteTo(f.WithContext(t.Context())) },
		"WriteTo, Writer": func() (int64, error) { return f.WriteTo(f.Writer()) },
	} {
		t.Run(name, func(t *testing.T) {
			if n, err := call(); n != 0 || !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
}

// On a server that rewrites the targets of links, a link that was there is not taken for one that
// SYMLINK has made the wrong way round.
func TestSymlinkKeepsWhatWasThere(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.Symlink("/new", "/old")
	r.server.AddFaults(sftptest.Fault{On: wire.TypeReadlink, Path: "/new",
		Do: sftptest.Refuse(wire.PermissionDenied, "links are private")})
	ok(t, r.Symlink("/old", "/new"))
	if !r.server.Files.Exists("/old") {
		t.Error("/old is gone")
	}
}
