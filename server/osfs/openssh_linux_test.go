package osfs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/wire"
)

// serveEnv makes this program serve standard input: "host" everything, "below" only the working
// directory, "atomic" the same with uploads that appear when they are closed.
const serveEnv = "USFTP_TEST_SERVE"

func TestMain(m *testing.M) {
	if what := os.Getenv(serveEnv); what != "" {
		if err := serveHere(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testenv.InMemory(m))
}

func serveHere(what string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	syscall.Umask(0o022)
	backend, opts := osfs.Host(), &server.Options{Policy: server.Policy{Home: dir}}
	if what != "host" {
		opts.Home = "/"
		serve := map[string]func(string) (*osfs.FS, error){"below": osfs.New, "atomic": osfs.NewAtomic}
		if backend, err = serve[what](dir); err != nil {
			return err
		}
	}
	return server.Serve(context.Background(), server.Pipes(os.Stdin, os.Stdout), backend, opts)
}

// A peer is a server that runs in its own directory, and is asked one thing at a time.
type peer struct {
	t        *testing.T
	name     string
	dir      string
	top      string  // the name of dir in paths
	prepared []entry // what tree returns for an unchanged tree
	in       io.Writer
	out      io.Reader
}

// nobody is the user that the servers run as if the test may choose: root may do everything, so
// modes would have no effect.
const nobody = 65534

func startPeer(t *testing.T, name, top string, cmd *exec.Cmd) *peer {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, name: name, dir: filepath.Join(base, "tree"), top: top}
	if top == "" {
		p.top = p.dir
	}
	t.Cleanup(func() { remove(p.dir) }) // TempDir's own cleanup cannot where modes apply
	if err := errors.Join(os.Chmod(filepath.Dir(base), 0o755), os.Mkdir(p.dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	p.chain()
	cmd.Dir, cmd.Stderr = p.dir, os.Stderr
	if os.Getuid() == 0 {
		if err := os.Lchown(p.dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody,
			Gid: nobody}}
	}
	in, out := testenv.Pipes(t, cmd)
	p.out = out
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("%s: %v", name, err)
		}
	})
	p.in = in
	if kind, _ := p.exchange(wire.Init{Version: wire.Version}.Append(
		nil)); kind != wire.TypeVersion {
		t.Fatalf("%s answered INIT by %v", name, kind)
	}
	return p
}

func (p *peer) exchange(packet []byte) (wire.Type, []byte) {
	p.t.Helper()
	if _, err := p.in.Write(packet); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	kind, _, body := p.receive()
	return kind, body
}

func (p *peer) receive() (kind wire.Type, id uint32, body []byte) {
	p.t.Helper()
	var length [4]byte
	if _, err := io.ReadFull(p.out, length[:]); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	b := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(p.out, b); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	kind, id, body, err := wire.ParseHeader(b)
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return kind, id, body
}

// node is an element of the tree: a directory with a name that ends in a slash, a link with a
// target ("%T" is the top), or a file.
type node struct {
	name, target string
	mode         fs.FileMode
}

var preparedTree = []node{
	{name: "../outside/", mode: 0o755},
	{name: "../outside/f", mode: 0o644},
	{name: "f", mode: 0o644},
	{name: "ro", mode: 0o444},
	{name: "secret", mode: 0},
	{name: "d/", mode: 0o755},
	{name: "d/f", mode: 0o640},
	{name: "d/sub/", mode: 0o755},
	{name: "d/sub/f", mode: 0o600},
	{name: "empty/", mode: 0o755},
	{name: "closed/", mode: 0},
	{name: "listed/", mode: 0o600},
	{name: "fixed/", mode: 0o555},
	{name: "fixed/f", mode: 0o644},
	{name: "lf", target: "f"},
	{name: "ld", target: "d"},
	{name: "lsub", target: "d/sub"},
	{name: "lslash", target: "d/"},
	{name: "lfslash", target: "f/"},
	{name: "ldot", target: "d/."},
	{name: "self", target: "."},
	{name: "d/up", target: ".."},
	{name: "lup", target: "d/sub/../.."},
	{name: "dangling", target: "nowhere"},
	{name: "danglingslash", target: "nowhere/"},
	{name: "danglingdeep", target: "nodir/x"},
	{name: "loop", target: "loop"},
	{name: "ping", target: "pong"},
	{name: "pong", target: "ping"},
	{name: "absf", target: "%T/f"},
	{name: "absd", target: "%T/d"},
	{name: "out", target: "../outside"},
}

// chain makes links that lead to each other, the first to a directory. Nothing changes them.
func (p *peer) chain() {
	p.t.Helper()
	chain := filepath.Join(p.dir, "chain")
	err := os.Mkdir(chain, 0o755)
	for i := range 41 {
		target := "../d"
		if i > 0 {
			target = strconv.Itoa(i)
		}
		err = errors.Join(err, os.Symlink(target, filepath.Join(chain, strconv.Itoa(i+1))))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// An entry is something that exists.
type entry struct{ name, description string }

// restore makes the tree what preparedTree says. What is so already stays, because making all of it
// again after each request would take most of the test's time.
func (p *peer) restore(now []entry) {
	p.t.Helper()
	var errs []error
	check := func(err error) { errs = append(errs, err) }
	old := make(map[string]string)
	for _, e := range p.prepared {
		old[e.name] = e.description
	}
	unchanged := make(map[string]bool)
	for _, e := range now {
		description, prepared := old[e.name]
		unchanged[e.name] = description == e.description
		if !prepared {
			check(remove(e.name))
		}
	}
	modes := []node{{name: filepath.Dir(p.dir), mode: 0o755}, {name: p.dir, mode: 0o755}}
	for _, n := range preparedTree {
		name := filepath.Join(p.dir, n.name)
		isDir := strings.HasSuffix(n.name, "/")
		if isDir {
			os.Chmod(name, 0o755) // so that users other than root can change what it contains
			modes = append(modes, node{name: name, mode: n.mode})
		}
		if unchanged[name] {
			continue
		}
		if info, err := os.Lstat(name); err == nil && (!isDir || !info.IsDir()) {
			check(remove(name))
		}
		switch {
		case n.target != "":
			check(os.Symlink(strings.ReplaceAll(n.target, "%T", p.dir), name))
		case isDir:
			if err := os.Mkdir(name, 0o755); !errors.Is(err, fs.ErrExist) {
				check(err)
			}
		default:
			check(os.WriteFile(name, []byte("this is "+n.name), 0o644))
			modes = append(modes, node{name: name, mode: n.mode})
		}
		if os.Getuid() == 0 {
			check(os.Lchown(name, nobody, nobody))
		}
	}
	for _, n := range slices.Backward(modes) {
		check(os.Chmod(n.name, n.mode))
		if !unchanged[n.name] {
			check(os.Chtimes(n.name, time.Time{}, time.Now()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		p.t.Fatal(err)
	}
	p.prepared = p.tree()
	for _, e := range p.prepared {
		if len(old) > 0 && old[e.name] != e.description {
			p.t.Fatalf("%s has become %s, and was %s", e.name, e.description, old[e.name])
		}
	}
}

// remove removes a file, or a directory with what it contains.
func remove(name string) error {
	filepath.WalkDir(name, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(name, 0o755) // so that users other than root can remove what it contains
		}
		return nil
	})
	return os.RemoveAll(name)
}

// tree lists everything inside, and outside.
func (p *peer) tree() (all []entry) {
	visit := func(name string, d fs.DirEntry, err error) error {
		if d.Name() == "chain" && d.IsDir() {
			return fs.SkipDir
		}
		info, statErr := os.Lstat(name)
		if statErr != nil {
			return nil
		}
		st := info.Sys().(*syscall.Stat_t)
		var b strings.Builder
		fmt.Fprintf(&b, "%v %d", info.Mode(), st.Nlink)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(name)
			fmt.Fprintf(&b, " -> %s", target)
		case info.Mode().IsRegular():
			text, err := os.ReadFile(name)
			fmt.Fprintf(&b, " %q", text)
			if os.Getuid() == 0 && err != nil {
				p.t.Fatal(err)
			}
		}
		if info.ModTime().Unix() == 7 {
			b.WriteString(" seven")
		}
		all = append(all, entry{name, b.String()})
		return nil
	}
	filepath.WalkDir(filepath.Dir(p.dir), visit)
	return all
}

// changed describes the tree, and restores it afterwards.
func (p *peer) changed() string {
	now := p.tree()
	if !slices.Equal(now, p.prepared) {
		p.restore(now)
	}
	var b strings.Builder
	for _, e := range now {
		fmt.Fprintf(&b, "%s %s\n", e.name, e.description)
	}
	return strings.ReplaceAll(b.String(), filepath.Dir(p.dir), "")
}

// path inserts the top's name.
func (p *peer) path(name string) string { return strings.ReplaceAll(name, "%T", p.top) }

// unpath removes the top's name.
func (p *peer) unpath(name string) string {
	if p.top == "/" && strings.HasPrefix(name, "/") {
		name = strings.TrimSuffix(p.dir+name, "/")
	}
	return strings.ReplaceAll(name, filepath.Dir(p.dir), "^")
}

type message interface {
	Append(b []byte, id uint32) []byte
}

// answers sends requests, all at once, and describes the replies, and the files of the handles that
// were returned.
func (p *peer) answers(list []message) []string {
	p.t.Helper()
	texts := make([]string, len(list))
	handles := make([][]byte, len(list))
	p.round(list, func(i int, kind wire.Type, body []byte) {
		texts[i], handles[i] = p.say(kind, body)
	})
	for step := range 4 {
		var next []message
		var of []int
		for i, h := range handles {
			open, opened := list[i].(wire.Open)
			writes := open.Flags&wire.OpenWrite != 0
			reads := !writes || open.Flags&wire.OpenRead != 0
			var m message
			switch {
			case h == nil:
				continue
			case step == 3:
				m = wire.HandleRequest{Type: wire.TypeClose, Handle: h}
			case !opened:
				m = wire.HandleRequest{Type: wire.TypeReaddir, Handle: h}
			case step == 0:
				m = wire.HandleRequest{Type: wire.TypeFstat, Handle: h}
			case step == 1 && reads:
				m = wire.Read{Handle: h, Length: 100}
			case step == 2 && writes:
				m = wire.Write{Handle: h, Offset: 3, Data: []byte("NEW")}
			default:
				continue
			}
			next, of = append(next, m), append(of, i)
		}
		p.round(next, func(i int, kind wire.Type, body []byte) {
			text, _ := p.say(kind, body)
			texts[of[i]] += ", " + text
		})
	}
	return texts
}

// round sends requests and passes on the replies.
func (p *peer) round(list []message, reply func(i int, kind wire.Type, body []byte)) {
	p.t.Helper()
	var packets []byte
	for i, m := range list {
		packets = m.Append(packets, uint32(i))
	}
	sent := make(chan error, 1)
	go func() {
		_, err := p.in.Write(packets)
		sent <- err
	}()
	for range list {
		kind, id, body := p.receive()
		reply(int(id), kind, body)
	}
	if err := <-sent; err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// say describes a reply.
func (p *peer) say(kind wire.Type, body []byte) (text string, handle []byte) {
	p.t.Helper()
	var err error
	switch kind {
	case wire.TypeStatus:
		var s wire.Status
		err = s.Parse(body)
		text = s.Code.String()
	case wire.TypeAttrs:
		var a wire.AttrsReply
		err = a.Parse(body)
		text = fmt.Sprintf("attrs %o", a.Attrs.Permissions)
		if a.Attrs.Permissions&0o170000 == 0o100000 {
			text += fmt.Sprintf(" of %d", a.Attrs.Size)
		}
	case wire.TypeName:
		var n wire.Names
		err = n.Parse(body)
		var names []string
		for _, name := range n.Names {
			names = append(names, p.unpath(name.Filename))
		}
		slices.Sort(names)
		text = fmt.Sprintf("names %q", names)
	case wire.TypeHandle:
		var h wire.Handle
		err = h.Parse(body)
		text, handle = "handle", bytes.Clone(h.Handle)
	case wire.TypeData:
		var d wire.Data
		err = d.Parse(body)
		text = fmt.Sprintf("data %q", d.Data)
	default:
		text = kind.String()
	}
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return text, handle
}

// ask is a request about a path.
type ask struct {
	name    string
	changes bool
	request func(path string, p *peer) message
}

// batch returns how many paths are asked about at once: all of them if nothing changes.
func (a ask) batch() int {
	if a.changes {
		return 1
	}
	return 100
}

func (p *peer) ask(a ask, paths []string) []string {
	var list []message
	for _, path := range paths {
		list = append(list, a.request(p.path(path), p))
	}
	texts := p.answers(list)
	if a.changes {
		texts[0] += "\n" + p.changed()
	}
	return texts
}

// asks are the requests, each about one path; requests with two paths have a fixed second one.
var asks = []ask{
	{"stat", false, on(wire.TypeStat)},
	{"lstat", false, on(wire.TypeLstat)},
	{"opendir", false, on(wire.TypeOpendir)},
	{"readlink", false, on(wire.TypeReadlink)},
	{"realpath", false, on(wire.TypeRealpath)},
	{"statvfs", false, extended(wire.ExtStatVFS)},
	{"expand-path", false, extended(wire.ExtExpandPath)},
	{"open nothing", false, open_(0)},
	{"open read", false, open_(wire.OpenRead)},
	{"open write", true, open_(wire.OpenWrite)},
	{"open read write", true, open_(wire.OpenRead | wire.OpenWrite)},
	{"open create", true, open_(wire.OpenWrite | wire.OpenCreate)},
	{"open create read", true, open_(wire.OpenRead | wire.OpenCreate)},
	{"open exclusive", true, open_(wire.OpenWrite | wire.OpenCreate | wire.OpenExclusive)},
	{"open truncate", true, open_(wire.OpenWrite | wire.OpenCreate | wire.OpenTruncate)},
	{"open append", true, open_(wire.OpenWrite | wire.OpenAppend)},
	{"remove", true, on(wire.TypeRemove)},
	{"rmdir", true, on(wire.TypeRmdir)},
	{"mkdir", true, attrs(wire.TypeMkdir, wire.Attrs{Flags: wire.AttrPermissions,
		Permissions: 0o750})},
	{"setstat size", true, attrs(wire.TypeSetstat, wire.Attrs{Flags: wire.AttrSize, Size: 4})},
	{"setstat mode", true, attrs(wire.TypeSetstat, wire.Attrs{Flags: wire.AttrPermissions,
		Permissions: 0o711})},
	{"setstat times", true, attrs(wire.TypeSetstat, wire.Attrs{Flags: wire.AttrACModTime, ATime: 7,
		MTime: 7})},
	{"lsetstat size", true, lsetstat(wire.Attrs{Flags: wire.AttrSize, Size: 4})},
	{"lsetstat mode", true, lsetstat(wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o711})},
	{"lsetstat times", true, lsetstat(wire.Attrs{Flags: wire.AttrACModTime, ATime: 7, MTime: 7})},
	{"symlink", true, func(path string, p *peer) message {
		return wire.Symlink{First: "to", Second: path}
	}},
	{"rename from", true, func(path string, p *peer) message {
		return wire.Rename{OldPath: path, NewPath: "new"}
	}},
	{"rename file to", true, func(path string, p *peer) message {
		return wire.Rename{OldPath: "f", NewPath: path}
	}},
	{"rename directory to", true, func(path string, p *peer) message {
		return wire.Rename{OldPath: "d", NewPath: path}
	}},
	{"posix-rename from", true, func(path string, p *peer) message {
		return wire.PosixRename{OldPath: path, NewPath: "new"}
	}},
	{"posix-rename file to", true, func(path string, p *peer) message {
		return wire.PosixRename{OldPath: "f", NewPath: path}
	}},
	{"posix-rename directory to", true, func(path string, p *peer) message {
		return wire.PosixRename{OldPath: "d", NewPath: path}
	}},
	{"posix-rename to itself", true, func(path string, p *peer) message {
		return wire.PosixRename{OldPath: path, NewPath: path}
	}},
	{"hardlink from", true, func(path string, p *peer) message {
		return wire.Hardlink{OldPath: path, NewPath: "new"}
	}},
	{"hardlink to", true, func(path string, p *peer) message {
		return wire.Hardlink{OldPath: "f", NewPath: path}
	}},
}

func on(kind wire.Type) func(string, *peer) message {
	return func(path string, _ *peer) message { return wire.PathRequest{Type: kind, Path: path} }
}

func extended(name string) func(string, *peer) message {
	return func(path string, _ *peer) message { return wire.ExtendedPath{Name: name, Path: path} }
}

func open_(flags uint32) func(string, *peer) message {
	return func(path string, _ *peer) message {
		return wire.Open{Path: path, Flags: flags, Attrs: wire.Attrs{Flags: wire.AttrPermissions,
			Permissions: 0o660}}
	}
}

func attrs(kind wire.Type, a wire.Attrs) func(string, *peer) message {
	return func(path string, _ *peer) message {
		return wire.PathAttrs{Type: kind, Path: path, Attrs: a}
	}
}

func lsetstat(a wire.Attrs) func(string, *peer) message {
	return func(path string, _ *peer) message { return wire.Lsetstat{Path: path, Attrs: a} }
}

// oddPaths are the paths that each request is tried with; fewer if each needs a tree of its own.
func oddPaths(few bool) []string {
	bases := []string{"nowhere", "nodir/x", "d/nowhere", "f/x", "ld/f", "ld/nowhere", "lsub/f",
		"closed/x", "fixed/f", "d/up/f", "out/f", "absd/f", "f", "d", "empty", "closed", "lf", "ld",
		"lslash", "lfslash", "self", "dangling", "danglingslash", "loop", "absd", "out"}
	ends := []string{"", "/", "/.."}
	starts := []string{"lsub/../", "f/../", "%T/"}
	if !few {
		bases = append(bases, "fixed/x", "ro", "d/sub", "lsub", "d/up", "chain/39", "chain/40",
			"chain/41", "lf/x", "dangling/x", "loop/x",
			"listed/x", "d/up/d/up", "lup/f", "absf/x", "d/f", "secret", "listed", "fixed", "ldot",
			"lup", "danglingdeep", "ping", "absf")
		ends = append(ends, "/.", "//", "/./", "/../", "/../f")
		starts = append(starts, "./", ".//", "d/../", "ld/../", "nodir/../", "closed/../",
			"self/self/",
			"d/up/", "%T//./", "/%T/")
	}
	var paths []string
	for _, base := range bases {
		for _, end := range ends {
			paths = append(paths, base+end)
		}
	}
	for _, base := range []string{"f", "d", "ld", "lf", "nowhere", "dangling", "d/sub/f"} {
		for _, start := range starts {
			paths = append(paths, start+base, start+base+"/")
		}
	}
	return append(paths, "", ".", "./", "..", "../", "/", "//", "/.", "/..", "%T", "%T/", "%T/.",
		"%T/..", "../..", "...", "d/...", strings.Repeat("n", 255), strings.Repeat("n", 256),
		strings.Repeat("d/up/", 20)+"f", strings.Repeat("d/../", 300)+"f",
		strings.Repeat("n/", 1000), " ", "\n", "\xff", "~", "~/", "~nobody-here")
}

// A difference is an intended difference between OpenSSH's server and ours.
type difference struct {
	reason string
	below  bool   // applies to confinement: not if the whole system is served
	asks   string // prefix of the request's name
	answer string // prefix of our answer
	paths  func(path string) bool
}

var differences = []difference{
	{reason: "REALPATH follows as many links as everything else: 40 and not 32",
		asks: "realpath", paths: under("chain/39", "chain/40")},
	{reason: "and so does expand-path",
		asks: "expand-path", paths: under("chain/39", "chain/40")},
	{reason: "RENAME fails where the new name exists, whatever else is wrong",
		asks: "rename directory to", answer: "failure", paths: func(string) bool { return true }},
	{reason: "the mode of a link is an unsupported operation, and no mere failure",
		asks: "lsetstat mode", answer: "operation unsupported",
		paths: func(string) bool { return true }},
	{reason: "the empty path is looked at before the size",
		asks: "lsetstat size", paths: is("")},

	{reason: "links that lead out, and absolute ones, are not followed: PERMISSION_DENIED",
		below: true,
		paths: under("out", "absd", "absf")},
	{reason: "the served directory is its own parent", below: true,
		paths: under("..", "../..", "%T/..", "self/..", "d/up/..", "d/up/d/up/..", "lup/..")},
	{reason: "absolute paths begin at the served directory", below: true,
		paths: func(path string) bool { return strings.HasPrefix(path, "/") && path[1:] != "%T/" }},
	{reason: "the served directory itself has no name to change", below: true,
		paths: is("%T", "%T/")},
}

// under matches paths and what goes through them.
func under(names ...string) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			rest, ok := strings.CutPrefix(path, name)
			return ok && (rest == "" || rest[0] == '/')
		})
	}
}

func is(names ...string) func(string) bool {
	return func(path string) bool { return slices.Contains(names, path) }
}

func meant(below bool, ask, path, got string) bool {
	for _, d := range differences {
		if (below || !d.below) && strings.HasPrefix(ask, d.asks) && d.paths(path) &&
			strings.HasPrefix(got, d.answer) {
			return true
		}
	}
	return false
}

// TestPathsAsOpenSSH sends the same requests to OpenSSH's server and ours, on equal trees, and
// compares their replies, the files of the handles, and what exists afterwards.
func TestPathsAsOpenSSH(t *testing.T) {
	program := opensshd.Find(t, "sftp-server")
	for _, serve := range []string{"host", "below", "atomic"} {
		t.Run(serve, func(t *testing.T) {
			t.Parallel()
			theirs := startPeer(t, "sftp-server", "", exec.Command(program, "-u", "022"))
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), serveEnv+"="+serve)
			top := ""
			if serve != "host" {
				top = "/"
			}
			ours := startPeer(t, "usftp", top, cmd)
			theirs.restore(nil)
			ours.restore(nil)
			asked, differ := 0, 0
			for _, ask := range asks {
				paths := oddPaths(ask.changes)
				var want, got []string
				for batch := range slices.Chunk(paths, ask.batch()) {
					want = append(want, theirs.ask(ask, batch)...)
					got = append(got, ours.ask(ask, batch)...)
				}
				asked += len(paths)
				for i, path := range paths {
					switch {
					case got[i] == want[i]:
					case meant(serve != "host", ask.name, path, got[i]):
						differ++
					default:
						t.Errorf("%s %.60q: OpenSSH's server: %s", ask.name, path,
							diff(want[i], got[i]))
					}
				}
			}
			t.Logf("%d requests, %d answered otherwise on purpose", asked, differ)
		})
	}
}

// diff shows the lines in which two answers differ.
func diff(want, got string) string {
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "%s; ours: %s", wants[0], gots[0])
	for _, line := range wants[1:] {
		if !slices.Contains(gots[1:], line) {
			fmt.Fprintf(&b, "\n  - %s", line)
		}
	}
	for _, line := range gots[1:] {
		if !slices.Contains(wants[1:], line) {
			fmt.Fprintf(&b, "\n  + %s", line)
		}
	}
	return b.String()
}
