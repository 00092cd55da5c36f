package scpclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/server/scp"
)

// A log is a Listener that writes down what it is told.
type log struct {
	said  []string
	moved int64
	stop  int64 // Moved fails after so many bytes, unless it is 0
}

var errStopped = errors.New("stopped")

func (l *log) say(format string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(format, args...))
}

func (l *log) Began(source, target string, size int64) {
	l.say("%s to %s: %d", source, filepath.Base(target), size)
}
func (l *log) Moved(n int) error {
	if l.moved += int64(n); l.stop > 0 && l.moved > l.stop {
		return errStopped
	}
	return nil
}
func (l *log) Ended(err error)                 { l.say("ended: %v", err) }
func (l *log) Made(dir string)                 { l.say("made %s", filepath.Base(dir)) }
func (l *log) Skipped(source, why string)      { l.say("skipped %s: %s", source, why) }
func (l *log) Failed(source string, err error) { l.say("failed %s: %v", source, err) }

func (l *log) has(text string) bool {
	return strings.Contains(strings.Join(l.said, "\n"), text)
}

func wantOf(root *os.Root, pattern string) Want {
	return Want{Pattern: pattern, Root: root, Dir: root.Name(), Source: "/srv/" + pattern}
}

func rootOf(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree returns what is below a directory: names with a slash for directories, and contents.
func tree(t testing.TB, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		short, _ := filepath.Rel(dir, name)
		switch text, err := os.ReadFile(name); {
		case d.IsDir():
			list = append(list, short+"/")
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			list = append(list, short+" -> "+to)
		case err != nil:
			return err
		default:
			list = append(list, short+": "+string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A script is a peer that has said all it will say, and does not listen.
type script struct {
	io.Reader
	bytes.Buffer
}

func (s *script) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// TestHostilePeers: whatever a host sends, nothing gets a name that was not asked for, nothing is
// written elsewhere, and no temporary file remains.
func TestHostilePeers(t *testing.T) {
	t.Parallel()
	deep := ""
	for i := range 300 {
		deep += fmt.Sprintf("D0755 0 d%d\n", i)
	}
	deep = strings.Replace(deep, "d0\n", "f\n", 1)
	for name, test := range map[string]struct {
		says      string
		recursive bool
		several   bool
		pattern   string
		contents  bool
		err       string
		left      []string
	}{
		"what was asked for": {says: "C0644 2 f\nhi\x00", left: []string{"f: hi"}},
		"another name": {says: "C0644 2 g\nhi\x00",
			err: `it sent "g" instead of what was asked for`},
		"a start-up file that a pattern could mean": {says: "C0644 2 .f\nhi\x00", several: true,
			pattern: "*", err: "instead of what was asked for"},
		"a start-up file": {says: "C0644 2 .bashrc\nhi\x00", several: true,
			err: "instead of what was"},
		"above": {says: "C0644 2 ../f\nhi\x00", err: "instead of what was asked for"},
		"above, matching": {says: "C0644 2 ..\nhi\x00", several: true,
			err: "instead of what was asked for"},
		"a path": {says: "C0644 2 f/x\nhi\x00", several: true,
			err: "instead of what was asked for"},
		"a path below": {says: "D0755 0 f\nC0644 2 a/b\nhi\x00", recursive: true,
			left: []string{"f/"},
			err:  "no file's name"},
		"above, below": {says: "D0755 0 f\nC0644 2 ..\nhi\x00", recursive: true,
			left: []string{"f/"},
			err:  "no file's name"},
		"a directory above": {says: "D0755 0 f\nD0755 0 ..\n", recursive: true,
			left: []string{"f/"},
			err:  "no file's name"},
		"itself": {says: "D0755 0 f\nD0755 0 .\n", recursive: true, left: []string{"f/"},
			err: "no file's name"},
		"a control character": {says: "D0755 0 f\nC0644 2 a\x1b[2J\nhi\x00", recursive: true,
			left: []string{"f/"}, err: `it sent "a?[2J", which is no file's name`},
		"no name": {says: "C0644 2 \nhi\x00", several: true,
			err: "instead of what was asked for"},
		"a second file": {says: "C0644 2 f\nhi\x00C0644 2 f\nho\x00",
			left: []string{"f: hi"}, err: "not asked for"},
		"a second time": {says: "C0644 2 f\nhi\x00C0644 0 f\n", several: true,
			left: []string{"f: hi"}, err: "not everything was copied"},
		"a directory": {says: "D0755 0 f\n", err: "it sent a directory"},
		"a file of those": {says: "C0644 2 f\nhi\x00", contents: true, recursive: true,
			err: "instead of a directory"},
		"the contents": {says: "D0755 0 ../..\nC0644 2 x\nhi\x00E\n", contents: true,
			recursive: true, left: []string{"x: hi"}},
		"an end":          {says: "E\n", err: "had not begun"},
		"too short":       {says: "C0644 9 f\nhi", err: "unexpected EOF"},
		"endless":         {says: "C0644 9223372036854775807 f\nhi", err: "unexpected EOF"},
		"too large":       {says: "C0644 9223372036854775808 f\nhi", err: "invalid size"},
		"a negative size": {says: "C0644 -1 f\nhi", err: "invalid size"},
		"a mode":          {says: "C99999 2 f\nhi", err: "invalid mode"},
		"times":           {says: "T1 0 x 0\n", err: "invalid time"},
		"times twice": {says: strings.Repeat("T1 0 1 0\n", 2) + "C0644 2 f\nhi\x00",
			err: "it sent times twice"},
		"times out of range": {says: "T9223372036854775807 0 1 0\n", err: "invalid time"},
		"failures without end": {says: strings.Repeat("\x01scp: no\n", 2000),
			err: "more than 1000 entries"},
		"unreadable": {says: "C0644 2 f\n\x00\x00\x01scp: f: I/O error\n",
			err: "not everything was copied"},
		"a failure": {says: "\x01scp: f: Permission denied\n",
			err: "not everything was copied"},
		"the end of it":    {says: "\x02scp: I give up\n", err: "the host says: I give up"},
		"nothing":          {says: "", err: "unexpected EOF"},
		"a greeting":       {says: "Welcome to f!\n", err: `it sent "Welcome to f!"`},
		"an empty line":    {says: "\n", err: "does not speak"},
		"a long line":      {says: "C0644 2 " + strings.Repeat("f", 1<<20), err: "too long"},
		"a long failure":   {says: "\x01" + strings.Repeat("f", 1<<20), err: "too long"},
		"no end of a line": {says: "C0644 2 f", err: "unexpected EOF"},
		"depth":            {says: deep, recursive: true, err: "more than 256 levels"},
		"entries": {says: "D0755 0 f\n" + strings.Repeat("C0644 0 a\n\x00", 2000), recursive: true,
			left: []string{"f/", "f/a: "}, err: "more than 1000 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside := t.TempDir()
			dir := filepath.Join(outside, "in", "dir")
			write(t, filepath.Join(outside, "f"), "outside")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			w := wantOf(rootOf(t, dir), "f")
			if w.Several, w.Contents = test.several, test.contents; w.Several {
				w.Pattern = cmp.Or(test.pattern, "[f]")
			}
			l := new(log)
			err := Receive(t.Context(), &script{Reader: strings.NewReader(test.says)}, w,
				Options{Recursive: test.recursive, MaxEntries: 1000}, l)
			if fmt.Sprint(err) != test.err && (test.err == "" && err != nil || test.err != "" &&
				!strings.Contains(fmt.Sprint(err), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if left := tree(t, dir); name != "depth" && !slices.Equal(left, test.left) {
				t.Errorf("there is %q, want %q; it said %q", left, test.left, l.said)
			}
			os.RemoveAll(dir)
			if left := tree(t, outside); !slices.Equal(left, []string{"f: outside", "in/"}) {
				t.Errorf("outside there is %q", left)
			}
		})
	}
}

// TestModes: without Modes, a host cannot give a directory what the umask leaves out.
func TestModes(t *testing.T) {
	t.Parallel()
	reference := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(reference, 0o777); err != nil {
		t.Fatal(err)
	}
	usual, err := os.Stat(reference)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o777, 0o577, 0o177, 0o700, 0o555} {
		dir := t.TempDir()
		err := Receive(t.Context(), &script{Reader: strings.NewReader(fmt.Sprintf(
			"D%04o 0 f\nC%04[1]o 2 x\nhi\x00E\n", mode))}, wantOf(rootOf(t, dir), "f"),
			Options{Recursive: true}, new(log))
		info, statErr := os.Stat(filepath.Join(dir, "f"))
		if err != nil || statErr != nil || info.Mode() != usual.Mode()&(fs.ModeDir|mode) {
			t.Errorf("%o becomes %v, %v, %v", mode, info.Mode(), err, statErr)
		}
		os.Chmod(filepath.Join(dir, "f"), 0o700) // so that it can be removed
	}
}

// A full disk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}
}

// TestFullDisk: what a full disk cannot take is not read to the end, which may be far away.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	l := &log{stop: 1 << 30}
	s := newSession(t.Context(), &script{Reader: endless{}}, Options{}, l)
	wrong, err := s.fill(fullDisk{}, 1<<40)
	if wrong != nil || !errors.Is(err, syscall.ENOSPC) || l.moved > bufferSize {
		t.Errorf("%v, %v, and %d bytes were read", wrong, err, l.moved)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestLinksInTheWay: links that are there already lead nowhere.
func TestLinksInTheWay(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	write(t, filepath.Join(outside, "f"), "outside")
	dir := t.TempDir()
	for name, to := range map[string]string{"f": filepath.Join(outside, "f"), "d/inside": outside,
		"d/g": "../../elsewhere"} {
		write(t, filepath.Join(dir, "d", "x"), "x")
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	l := new(log)
	err := Receive(t.Context(), &script{Reader: strings.NewReader("C0644 2 f\nhi\x00")},
		wantOf(rootOf(t, dir), "f"), Options{}, l)
	if err != nil {
		t.Error(err)
	}
	err = Receive(t.Context(), &script{Reader: strings.NewReader(
		"D0755 0 d\nC0644 2 g\nhi\x00D0755 0 inside\nE\n")},
		wantOf(rootOf(t, dir), "d"), Options{Recursive: true}, l)
	if !errors.Is(err, ErrFailed) || !l.has("failed /srv/d/inside: mkdir inside: not a directory") {
		t.Errorf("%v, and it said %q", err, l.said)
	}
	if got := tree(t, dir); !slices.Equal(got, []string{"d/", "d/g: hi", "d/inside -> " + outside,
		"d/x: x", "f: hi"}) {
		t.Errorf("there is %q", got)
	}
	if got := tree(t, outside); !slices.Equal(got, []string{"f: outside"}) {
		t.Errorf("outside there is %q", got)
	}
}

// TestStopped: what is cut off keeps what had the name, and leaves nothing.
func TestStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "old")
	l := &log{stop: 200_000}
	err := Receive(t.Context(), &script{Reader: io.MultiReader(strings.NewReader(
		"C0644 1000000 f\n"), strings.NewReader(strings.Repeat("x", 1_000_000)))},
		wantOf(rootOf(t, dir), "f"), Options{}, l)
	if got := tree(t, dir); err != errStopped || !slices.Equal(got, []string{"f: old"}) {
		t.Errorf("%v, and there is %.100q", err, got)
	}
}

// TestHostileSinks: an scp -t that refuses, gives up, says what is not the protocol, or goes away.
func TestHostileSinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "one")
	write(t, filepath.Join(dir, "b"), "two")
	sources := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for says, want := range map[string]string{
		"\x00\x00\x00\x00\x00":                        "",
		"\x00\x01scp: a: Permission denied\n\x00\x00": "not everything was copied",
		"\x00\x00\x01scp: a: disk full\n\x00\x00":     "not everything was copied",
		"\x01scp: no\n":                               "the host says: no",
		"\x00\x02scp: no more\n":                      "the host says: no more",
		"\x00\x00":                                    "unexpected EOF",
		"":                                            "unexpected EOF",
		"Welcome!\n":                                  `it sent "Welcome!"`,
		"bash: scp: not found":                        `it sent "bash: scp: not found"`,
		"\x01" + strings.Repeat("x", 1<<20):           "too long",
	} {
		l := new(log)
		s := &script{Reader: strings.NewReader(says)}
		err := Send(t.Context(), s, sources, "/srv", true, Options{}, l)
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%.60q: %v, want %q; it said %q", says, err, want, l.said)
		}
	}
}

// A broken peer says something, and takes nothing after some bytes.
type broken struct {
	io.Reader
	takes int
}

func (b *broken) Write(p []byte) (int, error) {
	if b.takes -= len(p); b.takes < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// TestSinkEnds: why an scp -t has ended is what it said last.
func TestSinkEnds(t *testing.T) {
	t.Parallel()
	big := filepath.Join(t.TempDir(), "big")
	write(t, big, strings.Repeat("x", 1_000_000))
	for says, want := range map[string]string{
		"\x00\x00\x02scp: disk full\n": "the host says: disk full",
		"\x00\x00":                     "unexpected EOF",
	} {
		err := Send(t.Context(), &broken{strings.NewReader(says), 300_000}, []string{big}, "/srv",
			true, Options{}, new(log))
		if fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %q", says, err, want)
		}
	}
}

// An early peer has said everything and ended before it is told that there is no more.
type early struct{ script }

func (*early) CloseWrite() error { return io.ErrClosedPipe }

// TestSinkEndsEarly: an scp -t that ends before it must is reported for what it said, once.
func TestSinkEndsEarly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a")
	write(t, file, "one")
	for says, want := range map[string]error{"\x00\x00\x00": nil, "\x00\x01scp: no\n": ErrFailed} {
		peer := &early{script{Reader: strings.NewReader(says)}}
		err := Send(t.Context(), peer, []string{file}, "/srv", true, Options{}, new(log))
		if err != want {
			t.Errorf("%q: %v, want %v", says, err, want)
		}
	}
}

// served is our own server's scp on a directory.
func served(t *testing.T, dir, line string) io.ReadWriteCloser {
	t.Helper()
	backend, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	view, err := server.NewView(backend, nil)
	if err != nil {
		t.Fatal(err)
	}
	command, err := scp.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		scp.Serve(context.Background(), theirs, view, command, nil)
	}()
	t.Cleanup(func() {
		ours.Close()
		<-done
	})
	return ours
}

// program is OpenSSH's scp in a directory, as sshd would run it.
func program(t *testing.T, dir, line string) io.ReadWriteCloser {
	t.Helper()
	testenv.Program(t, "scp")
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return struct {
		io.Reader
		io.WriteCloser
	}{out, in}
}

// TestBothWays: trees go to OpenSSH's scp and to our server's, and come back the same.
func TestBothWays(t *testing.T) {
	for name, start := range map[string]func(t *testing.T, dir, line string) io.ReadWriteCloser{
		"ours": served, "OpenSSH's": program} {
		t.Run(name, func(t *testing.T) {
			local, remote, back := t.TempDir(), t.TempDir(), t.TempDir()
			write(t, filepath.Join(local, "t/a"), "one")
			write(t, filepath.Join(local, "t/d/empty"), "")
			write(t, filepath.Join(local, "t/d/big"), strings.Repeat("0123456789", 100_000))
			at := time.Unix(1_700_000_000, 0)
			for _, name := range []string{"t/d/big", "t/d", "t/a"} {
				if err := os.Chtimes(filepath.Join(local, name), at, at); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(filepath.Join(local, "t/a"), 0o440); err != nil {
				t.Fatal(err)
			}
			o := Options{Recursive: true, Times: true, Modes: true}
			l := new(log)
			if err := Send(t.Context(), start(t, remote, "scp -r -p -t ."),
				[]string{filepath.Join(local, "t")}, "x", true, o, l); err != nil {
				t.Fatal(err, l.said)
			}
			if err := Receive(t.Context(), start(t, remote, "scp -r -p -f t"),
				wantOf(rootOf(t, back), "t"), o, l); err != nil {
				t.Fatal(err, l.said)
			}
			for _, dir := range []string{remote, back} {
				if !slices.Equal(tree(t, dir), tree(t, local)) {
					t.Errorf("it has %.300q", tree(t, dir))
				}
				for _, name := range []string{"t/d/big", "t/d", "t/a"} {
					was, _ := os.Stat(filepath.Join(local, name))
					is, err := os.Stat(filepath.Join(dir, name))
					if err != nil || is.Mode() != was.Mode() || !is.ModTime().Equal(at) {
						t.Errorf("%s is %v %v, %v", name, is.Mode(), is.ModTime(), err)
					}
				}
			}
			if err := Receive(t.Context(), start(t, remote, "scp -f missing"),
				wantOf(rootOf(t, back), "missing"), o, l); !errors.Is(err, ErrFailed) ||
				!l.has("o such file") {
				t.Errorf("%v, and it said %q", err, l.said)
			}
		})
	}
}

// TestSameName: a source does not replace another one of the same name, even if only a part of that
// was copied; it may if nothing was.
func TestSameName(t *testing.T) {
	for name, test := range map[string]struct {
		first string // what the host sends for the first source
		want  []string
	}{
		"a part of a directory": {"D0755 0 t\nC0644 3 a\none\x00\x01no\nE\n",
			[]string{"t/", "t/a: one"}},
		"an empty directory": {"D0755 0 t\n\x01no\nE\n", []string{"t/"}},
		"a part of a file":   {"C0644 3 t\none\x01no\n", []string{"t/", "t/a: two"}},
		"nothing":            {"\x01no\n", []string{"t/", "t/a: two"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, placed, l := t.TempDir(), make(placing), new(log)
			for _, says := range []string{test.first, "D0755 0 t\nC0644 3 a\ntwo\x00E\n"} {
				want := wantOf(rootOf(t, dir), "t")
				want.Placed = placed
				if len(placed) > 0 { // the host goes on with nothing after a refusal
					says, _, _ = strings.Cut(says, "C")
				}
				Receive(t.Context(), &script{Reader: strings.NewReader(says)}, want,
					Options{Recursive: true}, l)
			}
			if got := tree(t, dir); !slices.Equal(got, test.want) {
				t.Errorf("it has %q, and it said %q", got, l.said)
			}
		})
	}
	t.Run("sent", func(t *testing.T) {
		local, remote, l := t.TempDir(), t.TempDir(), new(log)
		write(t, filepath.Join(local, "1/t/a"), "one")
		write(t, filepath.Join(local, "1/t/d/too/deep"), "")
		write(t, filepath.Join(local, "2/t/a"), "two")
		err := Send(t.Context(), served(t, remote, "scp -r -d -t ."), []string{
			filepath.Join(local, "1/t"), filepath.Join(local, "2/t")}, ".", true,
			Options{Recursive: true, MaxDepth: 2}, l)
		if want := []string{"t/", "t/a: one", "t/d/"}; !errors.Is(err, ErrFailed) ||
			!slices.Equal(tree(t, remote), want) || !l.has("under the same name") {
			t.Errorf("%v; it has %q, and it said %q", err, tree(t, remote), l.said)
		}
	})
}

// FuzzReceive: whatever a host sends, only what was asked for is in the directory afterwards, and
// no temporary file.
func FuzzReceive(f *testing.F) {
	for _, says := range []string{"C0644 2 f\nhi\x00", "D0755 0 f\nT1 0 1 0\nC0644 2 x\nhi\x00E\n",
		"\x01no\n", "C0644 5 f\nhi", "D0755 0 f\nD0755 0 ..\n", "T1 0 2 0\nC0000 0 f\n\x01x\n",
		"T9223372036854775807 0 -9223372036854775808 0\nC0644 0 f\n\x00"} {
		f.Add(says)
	}
	f.Fuzz(func(t *testing.T, says string) {
		dir := t.TempDir()
		defer filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				os.Chmod(name, 0o700)
			}
			return nil
		})
		Receive(t.Context(), &script{Reader: strings.NewReader(says)}, wantOf(rootOf(t, dir), "f"),
			Options{Recursive: true, Times: true, Modes: true, MaxEntries: 100}, new(log))
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 1 || len(entries) == 1 && entries[0].Name() != "f" {
			t.Errorf("%q leaves %v, %v", says, entries, err)
		}
		filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
			if localfs.IsTempName(filepath.Base(name)) && !strings.Contains(says,
				filepath.Base(name)) {
				t.Errorf("%q leaves %s", says, name)
			}
			return nil
		})
	})
}
