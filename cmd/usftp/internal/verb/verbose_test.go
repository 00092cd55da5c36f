package verb

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestVerboseIsTheirs compares what -v prints, and why something failed, with the tools of the same
// names.
func TestVerboseIsTheirs(t *testing.T) {
	const missing, notDir, isDir, notEmpty = "no such file or directory", "not a directory",
		"is a directory", "directory not empty"
	mkdir := func(o MakeDirectoryOptions) func(*rig, []string) error {
		return func(r *rig, names []string) error {
			return MakeDirectory(t.Context(), r.Env, o, names)
		}
	}
	mv := func(o MoveOptions) func(*rig, []string) error {
		return func(r *rig, names []string) error { return Move(t.Context(), r.Env, o, names) }
	}
	rm := func(o RemoveOptions) func(*rig, []string) error {
		return func(r *rig, names []string) error { return Remove(t.Context(), r.Env, o, names) }
	}
	rmdir := func(o RemoveDirectoryOptions) func(*rig, []string) error {
		return func(r *rig, names []string) error {
			return RemoveDirectory(t.Context(), r.Env, o, names)
		}
	}
	ln := func(o LinkOptions) func(*rig, []string) error {
		return func(r *rig, names []string) error { return Link(t.Context(), r.Env, o, names) }
	}
	chmod := func(o ChangeModeOptions) func(*rig, []string) error {
		return func(r *rig, names []string) error {
			return ChangeMode(t.Context(), r.Env, o, names[1:])
		}
	}
	chown := func(o ChangeOwnerOptions) func(*rig, []string) error {
		return func(r *rig, names []string) error {
			return ChangeOwner(t.Context(), r.Env, o, names[1:])
		}
	}
	for _, test := range []struct {
		tool string
		run  func(r *rig, names []string) error
		said string // the end of each message
	}{
		{"mv f new", mv(MoveOptions{}), ""},
		{"mv f it's d", mv(MoveOptions{}), ""},
		{"mv missing x", mv(MoveOptions{}), missing},
		{"mv f missing/x", mv(MoveOptions{}),
			"f to missing/x: the directory missing does not exist (mkdir -p makes it)"},
		{"mv f it's/x", mv(MoveOptions{}), notDir},
		{"mv f it's e", mv(MoveOptions{}), "cannot access e: " + missing},
		{"mv f it's full/x", mv(MoveOptions{}), notDir},
		{"mv -T d full", mv(MoveOptions{NoDirectory: true}), "d to full: " + notEmpty},
		{"mv -T f d", mv(MoveOptions{NoDirectory: true}),
			"cannot overwrite a directory with a non-directory"},
		{"mv -T d f", mv(MoveOptions{NoDirectory: true}),
			"cannot overwrite a non-directory with a directory"},
		{"mv d d/e", mv(MoveOptions{}), "a directory cannot be moved into itself"},
		{"mkdir n m", mkdir(MakeDirectoryOptions{}), ""},
		{"mkdir -p n/m/o ./p//q/ d", mkdir(MakeDirectoryOptions{Parents: true}), ""},
		{"mkdir -p f/x/y", mkdir(MakeDirectoryOptions{Parents: true}), notDir},
		{"mkdir d", mkdir(MakeDirectoryOptions{}), "file exists"},
		{"mkdir f/x", mkdir(MakeDirectoryOptions{}), notDir},
		{"rmdir empty f full missing", rmdir(RemoveDirectoryOptions{}), notDir + "\n" + notEmpty +
			"\n" + missing},
		{"rmdir -p d/e/deep", rmdir(RemoveDirectoryOptions{Parents: true}), notEmpty},
		{"rm f it's", rm(RemoveOptions{}), ""},
		{"rm f d", rm(RemoveOptions{}), isDir + " (-r removes directories)"},
		{"rm -d empty full", rm(RemoveOptions{Directories: true}), notEmpty},
		{"rm -r full", rm(RemoveOptions{Recursive: true}), ""},
		{"ln f h", ln(LinkOptions{}), ""},
		{"ln -s f s", ln(LinkOptions{Symbolic: true}), ""},
		{"ln -sf x l", ln(LinkOptions{Symbolic: true, Force: true}), ""},
		{"ln d h", ln(LinkOptions{}), "hard link not allowed for directory"},
		{"ln -s x f", ln(LinkOptions{Symbolic: true}), "file exists"},
		{"chmod 600 f d", chmod(ChangeModeOptions{Mode: "600"}), ""},
		{"chmod 4755 f", chmod(ChangeModeOptions{Mode: "4755"}), ""},
		{"chmod u=rw,go=r f", chmod(ChangeModeOptions{Mode: "u=rw,go=r"}), ""},
		{"chmod -R 700 full", chmod(ChangeModeOptions{Mode: "700", Recursive: true}), ""},
		{"chown 12:34 f", chown(ChangeOwnerOptions{Owner: "12:34"}), ""},
		{"chown nobody f", chown(ChangeOwnerOptions{Owner: "nobody"}), ""},
		{"chown nobody: f", chown(ChangeOwnerOptions{Owner: "nobody:"}), ""},
		{"chown :5 f", chown(ChangeOwnerOptions{Owner: ":5"}), ""},
		{"chown 0:0 f", chown(ChangeOwnerOptions{Owner: "0:0"}), ""},
		{"chown : f", chown(ChangeOwnerOptions{Owner: ":"}), ""},
	} {
		t.Run(test.tool, func(t *testing.T) {
			if strings.HasPrefix(test.tool, "chown") && os.Getuid() != 0 {
				testenv.Unavailable(t, "root, who may change owners")
			}
			ours, theirs := modesDir(t), modesDir(t)
			for _, dir := range []string{ours, theirs} {
				for _, name := range []string{"f", "it's", "d/e/x", "full/x"} {
					writeFile(t, dir+"/"+name, name)
				}
				ok(t, os.MkdirAll(dir+"/d/e/deep", 0o755))
				ok(t, os.Mkdir(dir+"/empty", 0o755))
				ok(t, os.Symlink("nowhere", dir+"/l"))
				ok(t, os.Symlink("x", dir+"/full/l"))
			}
			words := strings.Fields(test.tool)
			want, code := tool(t, theirs, words[0], append([]string{"-v"}, words[1:]...)...)
			var names []string
			for _, word := range words[1:] {
				if !strings.HasPrefix(word, "-") {
					names = append(names, word)
				}
			}
			r := newRig(startServer(t, ours))
			r.Verbose = true
			err := test.run(r, names)
			got, said := r.take()
			if sortedLines(got) != sortedLines(want) || codeOf(err) != code {
				t.Errorf("code %v, want %d\n%s\nwant\n%s", err, code, got, want)
			}
			lines, ends := strings.Split(said, "\n"), strings.Split(test.said, "\n")
			for i, line := range lines {
				if len(lines) != len(ends) || !strings.HasSuffix(line, ends[i]) ||
					(line == "") != (ends[i] == "") {
					t.Errorf("said %q, want %q", lines, ends)
				}
			}
		})
	}
}

// TestNoUserIsSoonKnown: a name that the host does not know is not looked for without end, however
// slow the server is to answer. What was tried is reported.
func TestNoUserIsSoonKnown(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/f", "")
	r := newRig(startServer(t, dir))
	looks := 0
	now := time.Now()
	r.Now = func() time.Time { // each look at the clock finds it half a second on
		looks++
		now = now.Add(mostSearching / 4)
		return now
	}
	for owner, want := range map[string]string{
		"no such user":   "invalid user: 'no such user': no number below 1536 has this name on the host; use a number",
		":no such group": "invalid group: 'no such group': no number below 1536 has this name on the host; use a number",
	} {
		looks = 0
		err := ChangeOwner(t.Context(), r.Env, ChangeOwnerOptions{Owner: owner}, []string{"f"})
		if err == nil || err.Error() != want || errors.As(err, new(*ui.UsageError)) {
			t.Errorf("%v\nwant %s", err, want)
		}
		if looks > 20 {
			t.Errorf("%d looks at the clock", looks)
		}
	}
}

// TestHeadingsOfDirectories compares headings with those of head and tail, which can open a
// directory but not read it.
func TestHeadingsOfDirectories(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/f", "a\nb\n")
	writeFile(t, dir+"/empty", "")
	ok(t, os.Mkdir(dir+"/d", 0o755))
	names := []string{"d", "f", "missing", "d", "empty", "f", "f"}
	r := newRig(startServer(t, dir))
	for verb, run := range map[string]func(o HeadOptions, names []string) error{
		"head": func(o HeadOptions, names []string) error {
			return Head(t.Context(), r.Env, o, names)
		},
		"tail": func(o HeadOptions, names []string) error {
			return Tail(t.Context(), r.Env, TailOptions{HeadOptions: o}, names)
		},
	} {
		for _, names := range [][]string{names, {"d"}} {
			want, code := tool(t, dir, verb, append([]string{"-n", "1"}, names...)...)
			err := run(HeadOptions{Count: 1}, names)
			got, said := r.take()
			if got != want || codeOf(err) != code ||
				!strings.Contains(said, "cannot read d: is a directory") {
				t.Errorf("%s %v: code %v, want %d; %q, want %q; said %q", verb, names, err, code,
					got, want, said)
			}
		}
	}
}

// TestPrintfEscapes compares the escapes of stat --printf.
func TestPrintfEscapes(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/f", "")
	r := newRig(startServer(t, dir))
	for _, format := range []string{`\n\t\a\b\e\f\r\v\\\"`, `\101\0\12\1234\8`, `\x41\x4\x4142\xg`,
		`%n\`, `\`, `\q%%\n`, `\377\400`} {
		want, _ := tool(t, dir, "stat", "--printf", format, "f")
		ok(t, Status(t.Context(), r.Env, StatusOptions{Format: format, Plain: true}, []string{"f"}))
		if got, _ := r.take(); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
}

// TestMkdirLost: directories are not reported as made if the connection is lost before they are.
func TestMkdirLost(t *testing.T) {
	server := sftptest.NewServer(t,
		sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeMkdir {
				return []sftptest.Action{sftptest.Hangup()}
			}
			return nil
		}})
	stream := server.Dial(sftptest.LinkConfig{})
	client, err := usftp.NewClientPipe(stream, stream)
	ok(t, err)
	r := newRig(client)
	r.Verbose = true
	err = MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{Parents: true}, []string{"n/m"})
	if out, _ := r.take(); out != "" || !errors.Is(err, net.ErrClosed) {
		t.Errorf("printed %q, %v", out, err)
	}
}
