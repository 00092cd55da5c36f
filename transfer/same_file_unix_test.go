//go:build linux || darwin || freebsd

package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// namesRefused is a directory that takes no temporary names.
type namesRefused struct{ *osfs.FS }

func (n namesRefused) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	if flags&wire.OpenCreate != 0 && strings.Contains(name, ".usftp-") {
		return nil, fs.ErrPermission
	}
	return n.FS.Open(ctx, name, flags, attrs)
}

// ontoItself is a directory of this machine, and two connections to a host that is this machine,
// too, and shows that directory under another path.
type ontoItself struct {
	dir   string
	hosts [2]pool.Host
}

func newOntoItself(t *testing.T) *ontoItself {
	t.Helper()
	o := &ontoItself{dir: t.TempDir()}
	for i := range o.hosts {
		o.hosts[i] = hostOver(t, o.dir,
			func(files *osfs.FS) server.FS { return namesRefused{files} }, nil)
	}
	return o
}

// ontoItselfWays are the ways on which a host's file can be this machine's.
var ontoItselfWays = map[string]struct {
	direction way
	from      int // host that a relay reads from
}{
	"upload": {direction: upload}, "download": {direction: download},
	"relay over one connection": {direction: relay}, "relay over two": {direction: relay, from: 1},
}

// path returns a name in the directory, as the source or target of a copy.
func (o *ontoItself) path(local bool, name string) string {
	if local {
		return filepath.Join(o.dir, name)
	}
	return "/" + name
}

// TestFileOntoItself: a file that is copied onto itself through a host which is this machine, so
// that nobody can tell, keeps its contents, even where only writing in place is possible.
func TestFileOntoItself(t *testing.T) {
	t.Parallel()
	for name, over := range ontoItselfWays {
		for _, placement := range []transfer.Placement{transfer.PlaceAuto, transfer.PlaceDirect} {
			for _, size := range []int{0, 5, 300 << 10, 5<<20 + 7} {
				for _, names := range []int{1, 2} {
					t.Run(fmt.Sprintf("%s, %v, %d bytes, %d names", name, placement, size, names),
						func(t *testing.T) {
							t.Parallel() // some wait until the second of the file's time is over
							o, data := newOntoItself(t), random(size)
							target := "f"
							o.write(t, "f", data)
							if names == 2 {
								target = "g"
								o.link(t, "f", "g")
							}
							j := copyJob{Host: o.hosts[0], From: o.hosts[over.from],
								Direction: over.direction,
								Source:    o.path(over.direction == upload, "f"),
								Target:    o.path(over.direction == download, target),
								Options:   transfer.Options{Placement: placement}}
							_, err := j.Run(t.Context())
							o.check(t, err, data, "f", target)
						})
				}
			}
		}
	}
}

func (o *ontoItself) write(t *testing.T, name string, data []byte) {
	t.Helper()
	name = filepath.Join(o.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, data, 0o644), os.Chtimes(name, oldTime, oldTime)); err != nil {
		t.Fatal(err)
	}
}

func (o *ontoItself) link(t *testing.T, name, link string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(o.dir, link)), 0o755),
		os.Link(filepath.Join(o.dir, name), filepath.Join(o.dir, link))); err != nil {
		t.Fatal(err)
	}
}

// check makes sure that files hold data, and that a copy has succeeded or says that it may have
// copied a file onto itself.
func (o *ontoItself) check(t *testing.T, err error, data []byte, names ...string) {
	t.Helper()
	for _, name := range names {
		if got, err := os.ReadFile(filepath.Join(o.dir, name)); err != nil ||
			!bytes.Equal(got, data) {
			t.Errorf("%s has %d bytes, which differ from its %d: %v", name, len(got), len(data),
				err)
		}
	}
	if err != nil && !strings.Contains(err.Error(), "same file") &&
		!strings.Contains(err.Error(), "the source itself") {
		t.Errorf("it ended with %v", err)
	}
}

// TestFileOntoItselfByStream: nor does a stream empty the file that it comes from.
func TestFileOntoItselfByStream(t *testing.T) {
	o, data := newOntoItself(t), random(3<<20+5)
	o.write(t, "f", data)
	f, err := os.Open(filepath.Join(o.dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	j := copyJob{Host: o.hosts[0], Direction: upload, Reader: f, Source: "-", Target: "/f"}
	_, err = j.Run(t.Context())
	o.check(t, err, data, "f")
}

// TestTreeOfLinksOntoItself: the same for the files of a tree that are other names of the source's.
func TestTreeOfLinksOntoItself(t *testing.T) {
	t.Parallel()
	for name, over := range ontoItselfWays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOntoItself(t)
			files := map[string][]byte{"zero": nil, "small": random(4 << 10),
				"medium": random(300 << 10),
				"large":  random(5 << 20)}
			for name, data := range files {
				o.write(t, "a/"+name, data)
				o.link(t, "a/"+name, "b/"+name)
			}
			tree := treeJob{Host: o.hosts[0], From: o.hosts[over.from], Direction: over.direction,
				Source:  o.path(over.direction == upload, "a") + "/.",
				Target:  o.path(over.direction == download, "b"),
				Options: transfer.Options{Placement: transfer.PlaceDirect}}
			tree.Options.Events = func(e transfer.Event) {
				if e.Kind == transfer.Failed && e.Totals == nil {
					o.check(t, e.Err, files[filepath.Base(e.Source)], "b/"+filepath.Base(e.Source))
				}
			}
			tree.Run(t.Context())
			for name, data := range files {
				o.check(t, nil, data, "a/"+name, "b/"+name)
			}
		})
	}
}

// cutAfter ends a stream once that many bytes were written to it.
type cutAfter struct {
	net.Conn
	left atomic.Int64
}

func (c *cutAfter) Write(p []byte) (int, error) {
	if c.left.Add(-int64(len(p))) < 0 {
		c.Close()
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(p)
}

func (c *cutAfter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left.Add(-int64(n)) < 0 {
		c.Close()
		return 0, io.ErrClosedPipe
	}
	return n, err
}

// TestFileOntoItselfIsCutOff: wherever the connection breaks, the file keeps its contents.
func TestFileOntoItselfIsCutOff(t *testing.T) {
	t.Parallel()
	for name, over := range ontoItselfWays {
		for _, after := range []int64{2 << 10, 100 << 10, 1 << 20, 2 << 20, 4 << 20} {
			t.Run(fmt.Sprintf("%s, after %d bytes", name, after), func(t *testing.T) {
				t.Parallel()
				o, data := newOntoItself(t), random(2<<20+7)
				o.write(t, "f", data)
				o.link(t, "f", "g")
				files, err := osfs.New(o.dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { files.Close() })
				near, _ := serve(t, namesRefused{files}, nil)
				link := &cutAfter{Conn: near}
				link.left.Store(after)
				cut := connect(t, link)
				j := copyJob{Host: cut, From: cut, Direction: over.direction,
					Source: o.path(over.direction == upload, "f"),
					Target: o.path(over.direction == download, "g")}
				if over.from == 1 {
					j.From = o.hosts[1]
				}
				_, err = j.Run(t.Context())
				if after < 2<<20 && err == nil {
					t.Error("nothing was cut off")
				}
				o.check(t, nil, data, "f", "g")
			})
		}
	}
}
