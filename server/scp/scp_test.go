package scp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/scp"
	"github.com/usftp/usftp/wire"
)

func TestParse(t *testing.T) {
	for line, want := range map[string][]string{
		`scp -t x`:                       {"x"},
		`/usr/bin/scp -v -r -p -t -- -x`: {"-x"},
		`scp -f a b`:                     {"a", "b"},
		`scp -f 'a b' "c d" e\ f`:        {"a b", "c d", "e f"},
		`scp -f 'it'\''s'`:               {"it's"},
		`scp -f "a\"b\\c\d"`:             {`a"b\\c\\d`}, // as a pattern
		`scp -f 'a*b' "c?d" \[e`:         {`a\*b`, `c\?d`, `\[e`},
		`scp -f a*b [c]?`:                {"a*b", "[c]?"},
		`scp -f ''`:                      {""},
		`scp -f ~/x '~/y' a~b`:           {"~/x", "~/y", "a~b"},
		`scp -f '$HOME;rm'`:              {"$HOME;rm"},
		"scp  -f\ta ":                    {"a"},
	} {
		c, err := scp.Parse(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var got []string
		for _, w := range c.Paths {
			got = append(got, w.Pattern)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	c, err := scp.Parse("scp -rpd -t x")
	if err != nil || !c.Recursive || !c.Preserve || !c.IsDirectory || !c.Sink || c.Source {
		t.Errorf("flags: %+v, %v", c, err)
	}
	c, err = scp.Parse(`scp -f ~u/* '~'`)
	if err != nil || !c.Paths[0].Tilde || !c.Paths[0].Glob || c.Paths[1].Tilde {
		t.Errorf("tilde: %+v, %v", c, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{
		"scp -f $HOME", `scp -f "$HOME"`, "scp -f `id`", "scp -f \"`id`\"", "scp -f $(id)",
		"scp -f a;b", "scp -f a|b", "scp -f a&",
		"scp -f <a", "scp -t >a", "scp -f a\nb", "scp -f 'a", `scp -f "a`, `scp -f a\`, "scp -t",
		"scp -t a b", "scp -f", "scp a b",
		"scp -f -t a", "scp -fS prog a", "scp -f a\x00b", "scp -f 'a\x00b'",
	} {
		if c, err := scp.Parse(line); err == nil {
			t.Errorf("%q was taken as %+v", line, c)
		} else if errors.Is(err, scp.ErrNotSCP) {
			t.Errorf("%q: %v", line, err)
		}
	}
	for _, line := range []string{"", "  ", "ls", "scpx -f a", "rm -rf /", "; scp -f a", "'scp"} {
		if _, err := scp.Parse(line); !errors.Is(err, scp.ErrNotSCP) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// talk runs a command with all that the client will say, and returns what it is told.
func talk(t *testing.T, backend server.FS, policy *server.Policy, line,
	says string) (told string, err error) {
	t.Helper()
	return talkReported(t, backend, policy, nil, line, says)
}

func talkReported(t *testing.T, backend server.FS, policy *server.Policy,
	reports *server.Reporter, line, says string) (told string, err error) {
	t.Helper()
	command, err := scp.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	view, err := server.NewView(backend, policy)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	stream := struct {
		io.Reader
		io.Writer
	}{strings.NewReader(says), &out}
	err = scp.Serve(context.Background(), stream, view, command, reports)
	return out.String(), err
}

func content(t *testing.T, f *memfs.FS, name string) string {
	t.Helper()
	file, err := f.Open(context.Background(), name, wire.OpenRead, wire.Attrs{})
	if err != nil {
		t.Error(err)
		return ""
	}
	defer file.Close()
	b, err := io.ReadAll(io.NewSectionReader(file.(io.ReaderAt), 0, 1<<20))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestConversation(t *testing.T) {
	f := memfs.New(0)
	told, err := talk(t, f, nil, "scp -r -p -t /",
		"T1000 0 2000 0\nD0750 0 d\nC0640 5 f\nhello\x00E\n")
	if err != nil || told != "\x00\x00\x00\x00\x00\x00" {
		t.Errorf("up: %q, %v", told, err)
	}
	if got := content(t, f, "/d/f"); got != "hello" {
		t.Errorf("the file holds %q", got)
	}
	info, err := f.Stat(context.Background(), "/d")
	if err != nil || info.ModTime().Unix() != 1000 || info.Mode() != fs.ModeDir|0o750 {
		t.Errorf("the directory is %v %v, %v", info.Mode(), info.ModTime(), err)
	}
	told, err = talk(t, f, nil, "scp -r -f /d", strings.Repeat("\x00", 10))
	if err != nil || told != "D0750 0 d\nC0640 5 f\nhello\x00E\n" {
		t.Errorf("down: %q, %v", told, err)
	}
}

// TestOneAnswerToTheEnd: a client reads one answer to the end of a directory, also if its mode and
// times could not be set. It would take a second one for the answer to what it sends next.
func TestOneAnswerToTheEnd(t *testing.T) {
	f := memfs.New(0)
	told, err := talk(t, f, &server.Policy{Denied: []string{"setstat"}}, "scp -r -p -t /",
		"T1 0 1 0\nD0700 0 d\nE\nD0700 0 e\nE\n")
	const denied = ": the operation is not allowed here\n"
	if want := "\x00\x00\x00\x01scp: /d" + denied + "\x00\x01scp: /e" + denied; told != want ||
		!errors.Is(err, scp.ErrFailed) {
		t.Errorf("the client is told %q, %v, want %q", told, err, want)
	}
}

// TestModeOfADirectory: without -p the umask applies to all that is made, also to a directory that
// its owner may not write to in the end.
func TestModeOfADirectory(t *testing.T) {
	for preserve, modes := range map[string][2]fs.FileMode{"": {0o550, 0o750}, "-p": {0o555, 0o777}} {
		f := memfs.New(0)
		told, err := talk(t, f, &server.Policy{Umask: 0o027}, "scp -r -t "+preserve+" /",
			"D0555 0 d\nC0644 2 f\nhi\x00E\nD0777 0 e\nE\n")
		if err != nil {
			t.Fatalf("%q, %v", told, err)
		}
		for i, name := range []string{"/d", "/e"} {
			info, err := f.Stat(t.Context(), name)
			if err != nil || info.Mode().Perm() != modes[i] {
				t.Errorf("%q: the mode of %s is %v, %v, want %v", preserve, name, info.Mode(), err,
					modes[i])
			}
		}
	}
}

// TestPatternsWithinPaths: as in a shell, what a pattern stands for exists.
func TestPatternsWithinPaths(t *testing.T) {
	f := memfs.New(0)
	if told, err := talk(t, f, nil, "scp -r -t /",
		"D0755 0 a\nC0644 1 x\nA\x00E\nD0755 0 b\nE\nC0644 1 c\nC\x00"); err != nil {
		t.Fatalf("%q, %v", told, err)
	}
	for line, want := range map[string]string{
		"scp -f /*/x": "C0644 1 x\nA\x00",
		"scp -f /?/x": "C0644 1 x\nA\x00",
		"scp -f /*/y": "\x01scp: /*/y: file does not exist\n",
	} {
		told, err := talk(t, f, nil, line, strings.Repeat("\x00", 10))
		if told != want || (err != nil) != strings.HasPrefix(want, "\x01") {
			t.Errorf("%s: %q, %v, want %q", line, told, err, want)
		}
	}
}

// TestPatternsInAHome: a home is no part of a pattern, whatever its name.
func TestPatternsInAHome(t *testing.T) {
	f := memfs.New(0)
	if told, err := talk(t, f, nil, "scp -r -t /", "D0755 0 a[b]\nC0644 1 x\nX\x00E\n"+
		"D0755 0 ab\nC0644 1 y\nY\x00E\n"); err != nil {
		t.Fatalf("%q, %v", told, err)
	}
	for _, line := range []string{"scp -f *", "scp -f ~/*", "scp -f ../a\\[b]/?"} {
		told, err := talk(t, f, &server.Policy{Home: "/a[b]"}, line, strings.Repeat("\x00", 10))
		if want := "C0644 1 x\nX\x00"; told != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", line, told, err, want)
		}
	}
}

// TestPatternInAHomeWithoutMatch: it stands for itself, in the home.
func TestPatternInAHomeWithoutMatch(t *testing.T) {
	f := memfs.New(0)
	if told, err := talk(t, f, nil, "scp -r -t /", "D0755 0 home\nD0755 0 ~\n"+
		"C0644 1 *y\nX\x00E\nE\n"); err != nil {
		t.Fatalf("%q, %v", told, err)
	}
	told, err := talk(t, f, &server.Policy{Home: "/home"}, "scp -f ~/*y", "\x00\x00\x00")
	if !strings.Contains(told, "/home/*y: ") || err == nil {
		t.Errorf("%q, %v", told, err)
	}
}

// TestNameOfSeveralLines: who chooses a file's name does not choose what its contents are taken for.
func TestNameOfSeveralLines(t *testing.T) {
	f := memfs.New(0)
	file, err := f.Open(context.Background(), "/x\nC0644 0 evil", wire.OpenWrite|wire.OpenCreate,
		wire.Attrs{})
	if err != nil || file.Close() != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"scp -f '/x\nC0644 0 evil'", "scp -f /*", "scp -r -f /"} {
		told, err := talk(t, f, nil, line, strings.Repeat("\x00", 10))
		if err == nil || strings.Contains(told, "\nC") {
			t.Errorf("%q: %q, %v", line, told, err)
		}
	}
}

func TestHostileClients(t *testing.T) {
	for says, want := range map[string]string{
		"C0644 5 ../f\nhello\x00":        "invalid name",
		"C0644 5 a/b\nhello\x00":         "invalid name",
		"C0644 5 ..\nhello\x00":          "invalid name",
		"C0644 5 .\nhello\x00":           "invalid name",
		"C0644 5 \nhello\x00":            "invalid name",
		"D0755 0 d\n":                    "-r was not given",
		"C0644 -5 f\n":                   "invalid size",
		"C0644 99999999999999999999 f\n": "invalid size",
		"C99999 5 f\n":                   "invalid mode",
		"C0644\n":                        "invalid header",
		"T1 2 3\n":                       "four numbers",
		"T1 2 3 x\n":                     "invalid time",
		"E\n":                            "without its beginning",
		"hello\n":                        "not a line of the protocol",
		"\n":                             "an empty line",
		"C0644 5 " + strings.Repeat("n", 5000) + "\n": "too long",
	} {
		told, err := talk(t, memfs.New(0), nil, "scp -t /", says)
		if err == nil || !strings.Contains(told, "\x02scp: ") || !strings.Contains(told, want) {
			t.Errorf("%.40q: told %q, %v", says, told, err)
		}
	}
	deep := strings.Repeat("D0755 0 d\n", 1000)
	if told, err := talk(t, memfs.New(0), nil, "scp -r -t /", deep); err == nil ||
		!strings.Contains(told, "too deep") {
		t.Errorf("a thousand directories: %.100q, %v", told, err)
	}
	// Ends where more was to come.
	for _, says := range []string{"C0644 5 f\nhel", "C0644 5 f\nhello", "C0644 5 f",
		"D0755 0 d\n"} {
		if _, err := talk(t, memfs.New(0), nil, "scp -r -t /", says); !errors.Is(err,
			io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	f := memfs.New(1 << 20)
	big := strings.Repeat("x", 2<<20)
	told, err := talk(t, f, nil, "scp -t /",
		fmt.Sprintf("C0644 %d big\n%s\x00C0644 2 small\nok\x00", len(big), big))
	if !errors.Is(err, scp.ErrFailed) ||
		!strings.Contains(told, "\x01scp: /big: no space left on device\n") {
		t.Errorf("told %q, %v", told, err)
	}
}

func TestPolicy(t *testing.T) {
	f := memfs.New(0)
	if _, err := talk(t, f, nil, "scp -t /f", "C0644 2 f\nhi\x00"); err != nil {
		t.Fatal(err)
	}
	for _, policy := range []server.Policy{{ReadOnly: true}, {Denied: []string{"write"}},
		{Denied: []string{"open"}}} {
		if told, err := talk(t, f, &policy, "scp -t /f", "C0644 2 f\nno\x00"); err == nil ||
			content(t, f, "/f") != "hi" {
			t.Errorf("%+v let a file in: %q, %v", policy, told, err)
		}
	}
	if told, err := talk(t, f, &server.Policy{Denied: []string{"read"}}, "scp -f /f",
		"\x00\x00\x00\x00"); err == nil || strings.Contains(told, "hi") {
		t.Errorf("a file was read: %q, %v", told, err)
	}
	told, err := talk(t, f, &server.Policy{ReadOnly: true}, "scp -f /f", "\x00\x00\x00\x00")
	if err != nil || told != "C0644 2 f\nhi\x00" {
		t.Errorf("reading where only that is allowed: %q, %v", told, err)
	}
}

func TestWarningsOfTheClient(t *testing.T) {
	told, err := talk(t, memfs.New(0), nil, "scp -t /",
		"\x01scp: x: no such file\nC0644 2 f\nhi\x00")
	if !errors.Is(err, scp.ErrFailed) || told != "\x00\x00\x00" {
		t.Errorf("told %q, %v", told, err)
	}
	if _, err := talk(t, memfs.New(0), nil, "scp -t /", "\x02gone\n"); err == nil {
		t.Error("a client that gave up was not noticed")
	}
}

// FuzzServe lets a client say anything on any command line. It must end, and touch nothing above
// the target.
func FuzzServe(f *testing.F) {
	f.Add("scp -r -p -t /d", "T1 0 2 0\nD0755 0 x\nC0644 2 f\nhi\x00E\n")
	f.Add("scp -r -p -f /d/*", "\x00\x00\x00\x00\x00\x00")
	f.Add(`scp -f '~a'/[x "b\"c"`, "\x00\x01no\n\x02")
	f.Fuzz(func(t *testing.T, line, says string) {
		command, err := scp.Parse(line)
		if err != nil {
			return
		}
		backend := memfs.New(4 << 20)
		ctx := context.Background()
		backend.Mkdir(ctx, "/d", wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o755})
		view, err := server.NewView(backend, nil)
		if err != nil {
			t.Fatal(err)
		}
		stream := struct {
			io.Reader
			io.Writer
		}{strings.NewReader(says), io.Discard}
		scp.Serve(ctx, stream, view, command, nil)
		if command.Sink && command.Paths[0].Pattern == "/d" {
			for info, err := range backend.List(ctx, "/") {
				if err != nil || info.Name() != "d" {
					t.Errorf("beside the target there is %q, %v", info.Name(), err)
				}
			}
		}
	})
}

// TestDeniedThroughSCP: what the policy denies to SFTP it denies to scp.
func TestDeniedThroughSCP(t *testing.T) {
	for name, test := range map[string]struct{ denied, line, says, want string }{
		"-p to the sink": {"setstat", "scp -p -t /f", "T1 0 1 0\nC0600 3 f\nnew\x00",
			"not allowed"},
		"-p by handle": {"fsetstat", "scp -p -t /f", "T1 0 1 0\nC0600 3 f\nnew\x00",
			"not allowed"},
		"-r -p of a directory": {"setstat", "scp -r -p -t /", "T1 0 1 0\nD0700 0 d\nE\n",
			"not allowed"},
		"a listing with -r":      {"readdir", "scp -r -f /d", "\x00\x00\x00\x00", "not allowed"},
		"a listing by a pattern": {"readdir", "scp -f /d/*", "\x00\x00\x00\x00", "does not exist"},
		"opening a directory":    {"opendir", "scp -r -f /d", "\x00\x00\x00\x00", "not allowed"},
		"reading":                {"read", "scp -f /f", "\x00\x00\x00", "not allowed"},
		"writing":                {"write", "scp -t /f", "C0600 3 f\nnew\x00", "not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := memfs.New(0)
			if told, err := talk(t, f, nil, "scp -r -p -t /",
				"T1000 0 1000 0\nC0644 4 f\ntext\x00D0755 0 d\nC0644 1 x\nx\x00E\n"); err != nil {
				t.Fatalf("%q, %v", told, err)
			}
			told, err := talk(t, f, &server.Policy{Denied: []string{test.denied}}, test.line,
				test.says)
			if err == nil || !strings.Contains(strings.ToLower(told), test.want) {
				t.Errorf("%q, %v", told, err)
			}
			if strings.Contains(told, "C0644 1 x") {
				t.Errorf("%q was listed", told)
			}
			info, err := f.Stat(context.Background(), "/f")
			if err != nil || info.Mode() != 0o644 {
				t.Errorf("the mode is %v, %v", info.Mode(), err)
			}
			if info, err := f.Stat(context.Background(), "/d"); err != nil ||
				info.Mode() != fs.ModeDir|0o755 {
				t.Errorf("the directory's mode is %v, %v", info.Mode(), err)
			}
		})
	}
}

// lazy says what next returns each time.
type lazy struct{ next func() string }

func (l *lazy) Read(p []byte) (int, error) {
	text := l.next()
	if text == "" {
		return 0, io.EOF
	}
	return copy(p, text), nil
}

// TestFileOntoItself: a client that reads, a piece at a time, the file that it writes finds it
// whole.
func TestFileOntoItself(t *testing.T) {
	const size = 300_000
	for _, was := range []int{size, size + 5000} {
		f := memfs.New(0)
		data := strings.Repeat("0123456789", was/10)
		if _, err := talk(t, f, nil, "scp -t /f", fmt.Sprintf("C0644 %d f\n%s\x00", was,
			data)); err != nil {
			t.Fatal(err)
		}
		command, err := scp.Parse("scp -t /f")
		if err != nil {
			t.Fatal(err)
		}
		view, err := server.NewView(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		sent := -1
		client := &lazy{func() string {
			switch {
			case sent < 0:
				sent = 0
				return fmt.Sprintf("C0644 %d f\n", size)
			case sent == size:
				sent++
				return "\x00"
			case sent > size:
				return ""
			}
			from := sent
			sent = min(sent+1000, size)
			return content(t, f, "/f")[from:sent]
		}}
		stream := struct {
			io.Reader
			io.Writer
		}{client, io.Discard}
		if err := scp.Serve(context.Background(), stream, view, command, nil); err != nil {
			t.Error(err)
		}
		if got := content(t, f, "/f"); got != data[:size] {
			t.Errorf("of %d bytes %d are left, or others", was, len(got))
		}
	}
}
