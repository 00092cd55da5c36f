package sftptest

import (
	"io"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/wire"
)

// Conformance runs the same cases, with bare packets, against any server. The cases check the
// promises of draft-02 and the extensions' specifications and, where these leave something open,
// the practice of all major servers. Cases for extensions that the server lacks are skipped.
type Conformance struct {
	// Dial returns a new stream to the server, on which INIT has not been sent. It is closed when
	// the case ends.
	Dial func(testing.TB) io.ReadWriteCloser
	// Dir is the absolute path of an existing, writable directory on the server. Each case works in
	// a directory of its own below it, and leaves that behind.
	Dir string
	// DraftSymlink is for servers that expect SYMLINK's paths in the draft's order, the link's own
	// path first.
	DraftSymlink bool
	// Skip lists cases that the server is known to fail, with the reason.
	Skip map[string]string
}

// conformanceCase is one case. A case that needs an extension names it.
type conformanceCase struct {
	name      string
	extension string
	run       func(*kit)
}

// Run runs each case as a subtest.
func (c Conformance) Run(t *testing.T) {
	for _, test := range slices.Concat(fileCases, nameCases, protocolCases, extensionCases) {
		t.Run(test.name, func(t *testing.T) {
			if why := c.Skip[test.name]; why != "" {
				t.Skip(why)
			}
			k := newKit(t, c.Dial(t))
			k.draftSymlink = c.DraftSymlink
			if test.extension != "" && !k.offers(test.extension) {
				t.Skipf("the server does not offer %s", test.extension)
			}
			k.dir = path.Join(c.Dir, test.name)
			k.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: k.dir})
			test.run(k)
		})
	}
}

// kitTimeout ends a case whose server does not answer.
const kitTimeout = 30 * time.Second

// kit is a raw client that fails the test for any unexpected reply.
type kit struct {
	testing.TB
	*Raw
	dir          string
	extensions   []wire.ExtensionPair
	draftSymlink bool
	timedOut     atomic.Bool
}

// newKit exchanges INIT and VERSION on a stream. The stream is closed when the test ends, or after
// kitTimeout.
func newKit(t testing.TB, stream io.ReadWriteCloser) *kit {
	t.Helper()
	k := &kit{TB: t, Raw: NewRaw(stream), dir: "/"}
	watchdog := time.AfterFunc(kitTimeout, func() {
		k.timedOut.Store(true)
		stream.Close()
	})
	t.Cleanup(func() {
		watchdog.Stop()
		stream.Close()
	})
	v, err := k.Init()
	if err != nil {
		t.Fatalf("INIT: %v", err)
	}
	if v.Version != wire.Version {
		t.Fatalf("VERSION says %d", v.Version)
	}
	k.extensions = v.Extensions
	return k
}

func (k *kit) offers(name string) bool {
	return slices.ContainsFunc(k.extensions,
		func(e wire.ExtensionPair) bool { return e.Name == name })
}

// path returns the absolute path of a name in the case's directory.
func (k *kit) path(name string) string { return path.Join(k.dir, name) }

func (k *kit) ask(m request) Reply {
	k.Helper()
	r, err := k.Ask(m)
	if err != nil {
		k.Fatalf("%T %+v: %v", m, m, err)
	}
	return r
}

// code expects a STATUS of the given code.
func (k *kit) code(m request, want wire.Code) {
	k.Helper()
	r := k.ask(m)
	if code, ok := r.Code(); !ok || code != want {
		k.Fatalf("%T %+v: %v, want STATUS %v", m, m, r, want)
	}
}

func (k *kit) ok(m request) {
	k.Helper()
	k.code(m, wire.OK)
}

// fails expects a STATUS other than OK.
func (k *kit) fails(m request) {
	k.Helper()
	r := k.ask(m)
	if code, ok := r.Code(); !ok || code == wire.OK || code == wire.EOF {
		k.Fatalf("%T %+v: %v, want an error", m, m, r)
	}
}

// expect expects a reply of the given type and parses it.
func (k *kit) expect(m request, t wire.Type, into interface{ Parse([]byte) error }) {
	k.Helper()
	r := k.ask(m)
	if r.Type != t {
		k.Fatalf("%T %+v: %v, want %v", m, m, r, t)
	}
	if err := into.Parse(r.Body); err != nil {
		k.Fatalf("%T %+v: %v: %v", m, m, r, err)
	}
}

func (k *kit) open(name string, flags uint32) []byte {
	k.Helper()
	var m wire.Handle
	k.expect(wire.Open{Path: name, Flags: flags}, wire.TypeHandle, &m)
	return m.Handle
}

func (k *kit) closeHandle(handle []byte) {
	k.Helper()
	k.ok(wire.HandleRequest{Type: wire.TypeClose, Handle: handle})
}

// create makes a file with the given contents.
func (k *kit) create(name, data string) {
	k.Helper()
	h := k.open(name, wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate)
	k.write(h, 0, data)
	k.closeHandle(h)
}

func (k *kit) write(handle []byte, offset uint64, data string) {
	k.Helper()
	k.ok(wire.Write{Handle: handle, Offset: offset, Data: []byte(data)})
}

// read returns up to length bytes, fewer only at the end of the file. It repeats a short read,
// because any read may be short.
func (k *kit) read(handle []byte, offset uint64, length uint32) string {
	k.Helper()
	var all []byte
	for n := uint32(0); n < length; n = uint32(len(all)) {
		r := k.ask(wire.Read{Handle: handle, Offset: offset + uint64(n), Length: length - n})
		if code, ok := r.Code(); ok && code == wire.EOF {
			break
		}
		var m wire.Data
		if r.Type != wire.TypeData || m.Parse(r.Body) != nil || len(m.Data) == 0 ||
			len(m.Data) > int(length-n) {
			k.Fatalf("READ %d+%d: %v", offset+uint64(n), length-n, r)
		}
		all = append(all, m.Data...)
	}
	return string(all)
}

// contents reads a whole file.
func (k *kit) contents(name string) string {
	k.Helper()
	h := k.open(name, wire.OpenRead)
	all := k.read(h, 0, 1<<30)
	k.closeHandle(h)
	return all
}

// wantContents expects a file to hold the data.
func (k *kit) wantContents(name, want string) {
	k.Helper()
	if got := k.contents(name); got != want {
		k.Fatalf("%s holds %.40q (%d bytes), want %.40q (%d bytes)", name, got, len(got), want,
			len(want))
	}
}

func (k *kit) attrs(m request) wire.Attrs {
	k.Helper()
	var reply wire.AttrsReply
	k.expect(m, wire.TypeAttrs, &reply)
	return reply.Attrs
}

func (k *kit) stat(name string) wire.Attrs {
	k.Helper()
	return k.attrs(wire.PathRequest{Type: wire.TypeStat, Path: name})
}

func (k *kit) lstat(name string) wire.Attrs {
	k.Helper()
	return k.attrs(wire.PathRequest{Type: wire.TypeLstat, Path: name})
}

func (k *kit) missing(name string) {
	k.Helper()
	k.code(wire.PathRequest{Type: wire.TypeLstat, Path: name}, wire.NoSuchFile)
}

// name expects a NAME of one entry.
func (k *kit) name(m request) string {
	k.Helper()
	var reply wire.Names
	k.expect(m, wire.TypeName, &reply)
	if len(reply.Names) != 1 {
		k.Fatalf("%T %+v: %d names, want 1", m, m, len(reply.Names))
	}
	return reply.Names[0].Filename
}

// list returns a directory's entries except "." and "..", sorted by name.
func (k *kit) list(name string) []wire.Name {
	k.Helper()
	var m wire.Handle
	k.expect(wire.PathRequest{Type: wire.TypeOpendir, Path: name}, wire.TypeHandle, &m)
	readdir := wire.HandleRequest{Type: wire.TypeReaddir, Handle: m.Handle}
	var all []wire.Name
	for {
		r := k.ask(readdir)
		if code, ok := r.Code(); ok && code == wire.EOF {
			break
		}
		var names wire.Names
		if r.Type != wire.TypeName || names.Parse(r.Body) != nil || len(names.Names) == 0 {
			k.Fatalf("READDIR %s: %v", name, r)
		}
		all = append(all, names.Names...)
	}
	k.code(readdir, wire.EOF) // and again
	k.closeHandle(m.Handle)
	all = slices.DeleteFunc(all,
		func(n wire.Name) bool { return n.Filename == "." || n.Filename == ".." })
	slices.SortFunc(all,
		func(a, b wire.Name) int { return strings.Compare(a.Filename, b.Filename) })
	return all
}

func (k *kit) symlink(target, link string) {
	k.Helper()
	m := wire.Symlink{First: target, Second: link}
	if k.draftSymlink {
		m = wire.Symlink{First: link, Second: target}
	}
	k.ok(m)
}
