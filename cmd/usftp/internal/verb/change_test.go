package verb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestChangesAreTheirs runs the verbs that make, move and link files next to the tools of the same
// names, and compares the resulting files and exit codes.
func TestChangesAreTheirs(t *testing.T) {
	seed := func(dir string) {
		for _, name := range []string{"f", "g", "d/f", "e/x", "full/x"} {
			writeFile(t, filepath.Join(dir, name), name)
		}
		ok(t, os.Symlink("d", dir+"/dlink"))
		ok(t, os.Symlink("nowhere", dir+"/broken"))
		ok(t, os.MkdirAll(dir+"/empty/a/b", 0o755))
	}
	for _, test := range []struct {
		tool string
		run  func(r *rig) error
	}{
		{"mv f new", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{}, []string{"f", "new"})
		}},
		{"mv f f", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{}, []string{"f", "f"})
		}},
		{"mv f g", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{}, []string{"f", "g"})
		}},
		{"mv f g d", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{}, []string{"f", "g", "d"})
		}},
		{"mv g dlink", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{}, []string{"g", "dlink"})
		}},
		{"mv f missing d", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{}, []string{"f", "missing", "d"})
		}},
		{"mv f g new", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{}, []string{"f", "g", "new"})
		}},
		{"mv -n f g", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{NoClobber: true}, []string{"f", "g"})
		}},
		{"mv f d/f e", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{}, []string{"f", "d/f", "e"})
		}},
		{"mv d e/", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{}, []string{"d", "e/"})
		}},
		{"mv -T d full", func(r *rig) error {
			return Move(t.Context(), r.Env, MoveOptions{NoDirectory: true}, []string{"d", "full"})
		}},
		{"mkdir n m", func(r *rig) error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{}, []string{"n", "m"})
		}},
		{"mkdir d n", func(r *rig) error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{}, []string{"d", "n"})
		}},
		{"mkdir n/m/o", func(r *rig) error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{}, []string{"n/m/o"})
		}},
		{"mkdir -p n/m/o d", func(r *rig) error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{Parents: true},
				[]string{"n/m/o", "d"})
		}},
		{"mkdir -p f/x", func(r *rig) error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{Parents: true},
				[]string{"f/x"})
		}},
		{"mkdir -m 2750 n", func(r *rig) error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{Mode: "2750"},
				[]string{"n"})
		}},
		{"mkdir -p -m u=rwx,go= n/m d", func(r *rig) error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{Parents: true,
				Mode: "u=rwx,go="}, []string{"n/m", "d"})
		}},
		{"rmdir empty/a/b full f missing", func(r *rig) error {
			return RemoveDirectory(t.Context(), r.Env, RemoveDirectoryOptions{},
				[]string{"empty/a/b", "full", "f", "missing"})
		}},
		{"rmdir -p empty/a/b", func(r *rig) error {
			return RemoveDirectory(t.Context(), r.Env, RemoveDirectoryOptions{Parents: true},
				[]string{"empty/a/b"})
		}},
		{"ln f n", func(r *rig) error {
			return Link(t.Context(), r.Env, LinkOptions{}, []string{"f", "n"})
		}},
		{"ln f g", func(r *rig) error {
			return Link(t.Context(), r.Env, LinkOptions{}, []string{"f", "g"})
		}},
		{"ln -f f g", func(r *rig) error {
			return Link(t.Context(), r.Env, LinkOptions{Force: true}, []string{"f", "g"})
		}},
		{"ln -s f n", func(r *rig) error {
			return Link(t.Context(), r.Env, LinkOptions{Symbolic: true}, []string{"f", "n"})
		}},
		{"ln -s f g d", func(r *rig) error {
			return Link(t.Context(), r.Env, LinkOptions{Symbolic: true}, []string{"f", "g", "d"})
		}},
		{"ln -s x dlink", func(r *rig) error {
			return Link(t.Context(), r.Env, LinkOptions{Symbolic: true}, []string{"x", "dlink"})
		}},
		{"ln -sfn x dlink", func(r *rig) error {
			return Link(t.Context(), r.Env, LinkOptions{Symbolic: true, Force: true,
				NoFollow: true}, []string{"x", "dlink"})
		}},
		{"ln -sf x broken", func(r *rig) error {
			return Link(t.Context(), r.Env, LinkOptions{Symbolic: true, Force: true},
				[]string{"x", "broken"})
		}},
		{"ln -sfT x empty", func(r *rig) error {
			return Link(t.Context(), r.Env, LinkOptions{Symbolic: true, Force: true,
				NoDirectory: true}, []string{"x", "empty"})
		}},
		{"ln -s ../f d/up", func(r *rig) error {
			return Link(t.Context(), r.Env, LinkOptions{Symbolic: true}, []string{"../f", "d/up"})
		}},
		{"touch -d @1700000000 f n", func(r *rig) error {
			return Touch(t.Context(), r.Env, TouchOptions{Time: time.Unix(1_700_000_000, 0)},
				[]string{"f", "n"})
		}},
		{"touch -c n f -d @1600000000", func(r *rig) error {
			return Touch(t.Context(), r.Env,
				TouchOptions{NoCreate: true, Time: time.Unix(1_600_000_000, 0)}, []string{"n", "f"})
		}},
		{"touch missing/n", func(r *rig) error {
			return Touch(t.Context(), r.Env, TouchOptions{}, []string{"missing/n"})
		}},
		{"chown -R 12:34 d dlink", func(r *rig) error {
			return ChangeOwner(t.Context(), r.Env, ChangeOwnerOptions{Recursive: true,
				Owner: "12:34"}, []string{"d", "dlink"})
		}},
		{"chown nobody f", func(r *rig) error {
			return ChangeOwner(t.Context(), r.Env, ChangeOwnerOptions{Owner: "nobody"},
				[]string{"f"})
		}},
		{"chown nobody: f", func(r *rig) error {
			return ChangeOwner(t.Context(), r.Env, ChangeOwnerOptions{Owner: "nobody:"},
				[]string{"f"})
		}},
		{"chown :daemon f missing", func(r *rig) error {
			return ChangeOwner(t.Context(), r.Env, ChangeOwnerOptions{Owner: ":daemon"},
				[]string{"f", "missing"})
		}},
		{"chown +12:+34 f", func(r *rig) error {
			return ChangeOwner(t.Context(), r.Env, ChangeOwnerOptions{Owner: "+12:+34"},
				[]string{"f"})
		}},
		{"chown 7 broken f", func(r *rig) error {
			return ChangeOwner(t.Context(), r.Env, ChangeOwnerOptions{Owner: "7"},
				[]string{"broken", "f"})
		}},
		{"chmod 600 broken f", func(r *rig) error {
			return ChangeMode(t.Context(), r.Env, ChangeModeOptions{Mode: "600"},
				[]string{"broken", "f"})
		}},
		{"chown -h 7 broken", func(r *rig) error {
			return ChangeOwner(t.Context(), r.Env, ChangeOwnerOptions{Owner: "7", NoFollow: true},
				[]string{"broken"})
		}},
	} {
		t.Run(test.tool, func(t *testing.T) {
			if strings.HasPrefix(test.tool, "chown") && os.Getuid() != 0 {
				testenv.Unavailable(t, "root, who may change owners")
			}
			ours, theirs := t.TempDir(), t.TempDir()
			seed(ours)
			seed(theirs)
			words := strings.Fields(test.tool)
			_, code := tool(t, theirs, words[0], words[1:]...)
			r := newRig(startServer(t, ours))
			err := test.run(r)
			_, said := r.take()
			if codeOf(err) != code || (said != "") != (code != 0) {
				t.Errorf("code %v, want %d; said %q", err, code, said)
			}
			format := "%p %y %m %U %G %l %n\n"
			if words[0] == "touch" {
				format = "%p %y %m %s\n"
			}
			state := func(dir string) string {
				out, _ := tool(t, dir, "find", ".", "-mindepth", "1", "-printf", format)
				times, _ := tool(t, dir, "find", ".", "-type", "f", "-not", "-newermt",
					"2025-01-01", "-printf", "%p %T@ %A@\n")
				return sortedLines(out) + sortedLines(times)
			}
			if got, want := state(ours), state(theirs); got != want {
				t.Errorf("there is\n%s\nwant\n%s\nsaid %q", got, want, said)
			}
		})
	}
}

// TestOwnerNumbers: a number that means "no change" to the system is refused, and so is a sign
// before a name.
func TestOwnerNumbers(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/f", "")
	r := newRig(startServer(t, dir))
	for _, owner := range []string{"4294967295", ":4294967295", "+4294967295", "4294967295:0",
		"+root", "+"} {
		err := ChangeOwner(t.Context(), r.Env, ChangeOwnerOptions{Owner: owner}, []string{"f"})
		if !errors.As(err, new(*ui.UsageError)) {
			t.Errorf("%q: %v", owner, err)
		}
	}
}

// TestOwnersWithoutNames: with a server that sends no names, only numbers are accepted.
func TestOwnersWithoutNames(t *testing.T) {
	onShape(t, shape{"few", func(i int) string {
		return "/t/f"
	}}, openSSH, func(r *rig, _ *scripted) {
		err := ChangeOwner(background, r.Env, ChangeOwnerOptions{Owner: "nobody"}, []string{"/t/f"})
		if err == nil || !strings.Contains(err.Error(), "use a number") {
			t.Errorf("%v", err)
		}
		ok(t, ChangeOwner(background, r.Env, ChangeOwnerOptions{Owner: "5:6"}, []string{"/t/f"}))
		ok(t, List(background, r.Env, ListOptions{Long: true}, []string{"/t/f"}))
		if out, _ := r.take(); !strings.Contains(out, " 5 6 ") {
			t.Errorf("%q", out)
		}
	})
}

// TestParseDates: the formats of touch -d and -t.
func TestParseDates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local)
	for stamp, want := range map[string]string{"01020304": "2026-01-02 03:04:00",
		"7001020304":    "1970-01-02 03:04:00",
		"2501020304.05": "2025-01-02 03:04:05", "202501020304": "2025-01-02 03:04:00"} {
		got, err := ParseStamp(stamp, now)
		if err != nil || got.Format("2006-01-02 15:04:05") != want {
			t.Errorf("%s: %v, %v", stamp, got, err)
		}
	}
	for _, stamp := range []string{"", "1", "13020304", "01020304.", "01020304.5", "0102030x"} {
		if _, err := ParseStamp(stamp, now); err == nil {
			t.Errorf("%q was taken", stamp)
		}
	}
	for _, date := range []string{"2026-01-02", "2026-01-02 03:04", "2026-01-02T03:04:05Z", "@5",
		"2026-01-02 03:04:05 +0100"} {
		if _, err := ParseDate(date); err != nil {
			t.Error(err)
		}
	}
	for _, date := range []string{"", "yesterday", "@x", "2026-13-01"} {
		if _, err := ParseDate(date); err == nil {
			t.Errorf("%q was taken", date)
		}
	}
}

// TestLinkThatCannotReplace: on a host without posix-rename, what ln -f is to replace has its name
// back if the host refuses that name to the link.
func TestLinkThatCannotReplace(t *testing.T) {
	for _, refused := range []bool{false, true} {
		moved := false // then the next SYMLINK gives the link its name
		s := sftptest.NewServer(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
			Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type == wire.TypeSymlink && refused && moved {
					return []sftptest.Action{sftptest.Refuse(wire.Failure, "")}
				}
				moved = moved || r.Type == wire.TypeRename
				return nil
			}})
		s.Files.WriteFile("/f", []byte("old"))
		client := clientOf(t, s.Dial(sftptest.LinkConfig{}))
		err := Link(t.Context(), newRig(client).Env, LinkOptions{Symbolic: true, Force: true},
			[]string{"new", "/f"})
		to, _ := client.ReadLink("/f")
		old, _ := s.Files.ReadFile("/f")
		if refused != (err != nil) || !refused && to != "new" || refused && string(old) != "old" {
			t.Errorf("refused: %v; it leads to %q and holds %q, %v", refused, to, old, err)
		}
		if names := s.Files.List(); len(names) != 1 {
			t.Errorf("there are %q", names)
		}
	}
}

// TestMoveOverAFile: on a host without posix-rename, the file that mv replaces steps aside, and has
// its name back if the host refuses that name to the other.
func TestMoveOverAFile(t *testing.T) {
	for _, version := range []string{"", openSSH} {
		for _, refused := range []bool{false, true} {
			s := sftptest.NewServer(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == wire.TypeRename && refused && r.Path == "/new" {
						return []sftptest.Action{sftptest.Refuse(wire.Failure, "")}
					}
					return nil
				}})
			s.Files.WriteFile("/old", []byte("old"))
			s.Files.WriteFile("/new", []byte("new"))
			client := clientOf(t, s.Dial(sftptest.LinkConfig{}), usftp.WithServerVersion(version))
			r := newRig(client)
			want := []string{"/old"}
			if refused {
				want = []string{"/new", "/old"}
			}
			err := Move(t.Context(), r.Env, MoveOptions{}, []string{"/new", "/old"})
			data, _ := s.Files.ReadFile("/old")
			if got := s.Files.List(); !slices.Equal(got, want) || refused != (err != nil) ||
				string(data) != map[bool]string{false: "new", true: "old"}[refused] {
				t.Errorf("%q, refused: %v; there are %q, %q, %v", version, refused, got, data, err)
			}
			err = Move(t.Context(), r.Env, MoveOptions{NoClobber: true}, []string{"/new", "/old"})
			if now, _ := s.Files.ReadFile("/old"); string(now) != string(data) {
				t.Errorf("%q: mv -n replaced a file: %v", version, err)
			}
		}
	}
}

// TestServerThatPretends: chmod and touch fail where a server says that it has set something and
// has not, and the first file of a tree settles it.
func TestServerThatPretends(t *testing.T) {
	for _, honest := range []bool{false, true} {
		s := sftptest.NewServer(t, sftptest.Script{Intercept: func(r sftptest.Request,
		) []sftptest.Action {
			if r.Type == wire.TypeSetstat && !honest {
				return []sftptest.Action{sftptest.Refuse(wire.OK, "")}
			}
			return nil
		}})
		s.Files.WriteFile("/d/a", nil)
		s.Files.WriteFile("/d/b", nil)
		client := clientOf(t, s.Dial(sftptest.LinkConfig{}))
		r := newRig(client)
		for what, err := range map[string]error{
			"chmod": ChangeMode(t.Context(), r.Env, ChangeModeOptions{Mode: "600"}, []string{"/d/a"}),
			"touch": Touch(t.Context(), r.Env, TouchOptions{Time: time.Unix(1e9, 0)}, []string{"/d/a"}),
		} {
			if _, said := r.take(); (err == nil) != honest {
				t.Errorf("%s, honest: %v: %v, %q", what, honest, err, said)
			}
		}
	}
}

// TestServerThatFollowsLinks: mv and ln -sf replace and move links, not what they lead to, on a
// server whose renames follow them.
func TestServerThatFollowsLinks(t *testing.T) {
	for name, extensions := range map[string][]wire.ExtensionPair{"all": nil, "none": {}} {
		s := sftptest.NewServer(t, sftptest.Script{FollowLinks: true, Extensions: extensions,
			Home: "/home"})
		s.Files.WriteFile("/home/precious", []byte("precious"))
		s.Files.WriteFile("/home/new", []byte("new"))
		for _, link := range []string{"replaced", "by file", "by link", "moved"} {
			s.Files.Symlink("precious", "/home/"+link)
		}
		client := clientOf(t, s.Dial(sftptest.LinkConfig{}))
		r := newRig(client)
		ok(t, Link(t.Context(), r.Env, LinkOptions{Symbolic: true, Force: true},
			[]string{"elsewhere", "replaced"}))
		ok(t, Move(t.Context(), r.Env, MoveOptions{}, []string{"new", "by file"}))
		ok(t, Move(t.Context(), r.Env, MoveOptions{}, []string{"replaced", "by link"}))
		ok(t, Move(t.Context(), r.Env, MoveOptions{NoClobber: true}, []string{"moved", "there"}))
		ok(t, Move(t.Context(), r.Env, MoveOptions{NoClobber: true}, []string{"there", "by link"}))
		if err := Move(t.Context(), r.Env, MoveOptions{}, []string{"there", "precious"}); err == nil {
			t.Error("a file was replaced by a link to itself")
		}
		s.Files.WriteFile("/home/dir/kept", nil)
		s.Files.Symlink("dir", "/home/to dir")
		ok(t, Remove(t.Context(), r.Env, RemoveOptions{Recursive: true}, []string{"to dir"}))
		want := []string{"/home/", "/home/by file", "/home/by link -> /home/elsewhere",
			"/home/dir/", "/home/dir/kept", "/home/precious", "/home/there -> /home/precious"}
		if got := s.Files.List(); !slices.Equal(got, want) {
			t.Errorf("extensions %s: there are %q", name, got)
		}
		if data, err := s.Files.ReadFile("/home/precious"); string(data) != "precious" {
			t.Errorf("extensions %s: what the links led to holds %q, %v", name, data, err)
		}
	}
}

// TestRemoveListedLinks: rm -r enters no link on a server whose LSTAT follows them, even if it
// lists names only.
func TestRemoveListedLinks(t *testing.T) {
	s := sftptest.NewServer(t, sftptest.Script{FollowLinks: true, BareListings: true})
	s.Files.WriteFile("/away/kept", nil)
	s.Files.WriteFile("/tree/dir/file", nil)
	s.Files.Symlink("/away", "/tree/link")
	client := clientOf(t, s.Dial(sftptest.LinkConfig{}))
	ok(t, Remove(t.Context(), newRig(client).Env, RemoveOptions{Recursive: true}, []string{"/tree"}))
	if got := s.Files.List(); !slices.Equal(got, []string{"/away/", "/away/kept"}) {
		t.Errorf("there are %q", got)
	}
}

// TestLinkOntoItsFile: neither mv nor ln replaces a file by a symbolic link that leads to it.
func TestLinkOntoItsFile(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/d/f", "x")
	ok(t, os.Symlink("d/f", dir+"/f"))
	ok(t, os.Symlink("d/f", dir+"/other"))
	ok(t, os.Symlink("d", dir+"/link"))
	r := newRig(startServer(t, dir))
	for _, names := range [][]string{{"f", "d/f"}, {"f", "d"}, {"f", "link"}, {"f", "link/../d/f"}} {
		err := Move(t.Context(), r.Env, MoveOptions{}, names)
		if _, said := r.take(); codeOf(err) != 1 || !strings.Contains(said, "link to the target") {
			t.Errorf("mv %q: %v, %q", names, err, said)
		}
	}
	for _, names := range [][]string{{"f", "d"}, {"f", "d/f"}, {"../d/f", "d/f"},
		{dir + "/d/f", dir + "/d/f"}} {
		err := Link(t.Context(), r.Env, LinkOptions{Symbolic: true, Force: true}, names)
		if _, said := r.take(); codeOf(err) != 1 || !strings.Contains(said, "what it points to") {
			t.Errorf("ln -sf %q: %v, %q", names, err, said)
		}
	}
	if data, err := os.ReadFile(dir + "/d/f"); string(data) != "x" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	ok(t, Move(t.Context(), r.Env, MoveOptions{}, []string{"f", "other"})) // of the same file
	ok(t, Move(t.Context(), r.Env, MoveOptions{}, []string{"d/f", "other"}))
	if data, err := os.ReadFile(dir + "/other"); string(data) != "x" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

// TestMoveIntoItselfThroughALink: the reason is given, although the paths do not show it.
func TestMoveIntoItselfThroughALink(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.Mkdir(dir+"/d", 0o755))
	ok(t, os.Symlink("d", dir+"/link"))
	r := newRig(startServer(t, dir))
	err := Move(t.Context(), r.Env, MoveOptions{}, []string{"d", "link"})
	if _, said := r.take(); codeOf(err) != 1 || !strings.Contains(said, "moved into itself") {
		t.Errorf("%v, %q", err, said)
	}
}

// TestTouchSlash: a name that ends in a slash is a directory's, which touch does not make.
func TestTouchSlash(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/file", "x")
	ok(t, os.Mkdir(dir+"/d", 0o755))
	r := newRig(startServer(t, dir))
	for name, want := range map[string]string{"file/": "not a directory", "d/": "",
		"missing/": "the directory missing does not exist (mkdir -p makes it)"} {
		err := Touch(t.Context(), r.Env, TouchOptions{}, []string{name})
		_, said := r.take()
		if (want == "") != (err == nil) || !strings.HasSuffix(said, want) {
			t.Errorf("%s: %v, %q", name, err, said)
		}
	}
}

// TestTouchNothing: what touch -c does not find it does not report as touched.
func TestTouchNothing(t *testing.T) {
	r := newRig(startServer(t, t.TempDir()))
	r.JSON = true
	ok(t, Touch(t.Context(), r.Env, TouchOptions{NoCreate: true}, []string{"missing"}))
	if out, said := r.take(); out != "" || said != "" {
		t.Errorf("it printed %q and said %q", out, said)
	}
}

// TestDeleteIsTrue: that one file cannot be deleted does not make the -delete of the next one
// false, which starts before the host has answered.
func TestDeleteIsTrue(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/d/kept/x", "")
	writeFile(t, dir+"/d/last", "")
	r := newRig(startServer(t, dir))
	x, err := ParseExpression(strings.Fields("-name last -delete -print -o -name kept -delete"))
	ok(t, err)
	err = Find(t.Context(), r.Env, x, []string{"d"})
	if out, said := r.take(); codeOf(err) != 1 || out != "d/last\n" ||
		!strings.Contains(said, "d/kept: directory not empty") {
		t.Errorf("%v: it printed %q and said %q", err, out, said)
	}
}

// TestMoveOverAFileIsCompleted: on a host without posix-rename, a Ctrl-C while the target is out of
// the way leaves one of the two files at its name, and a lost connection leaves word where it is.
func TestMoveOverAFileIsCompleted(t *testing.T) {
	for _, what := range []string{"interrupted", "lost"} {
		s := sftptest.NewServer(t, sftptest.Script{Extensions: []wire.ExtensionPair{}})
		s.Files.WriteFile("/old", []byte("old"))
		s.Files.WriteFile("/new", []byte("new"))
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		do := sftptest.Truncate(0)
		if what == "interrupted" {
			do = sftptest.Call("interrupt", func(sftptest.Request) { interrupt() })
		}
		s.AddFaults(sftptest.Fault{On: wire.TypeRename, Path: "/old", Times: 1, Do: do})
		client := clientOf(t, s.Dial(sftptest.LinkConfig{}))
		err := Move(ctx, newRig(client).Env, MoveOptions{}, []string{"/new", "/old"})
		if what == "lost" {
			if err == nil || !strings.Contains(err.Error(), "may now be called /.old.usftp-") {
				t.Errorf("%v; there are %q", err, s.Files.List())
			}
		} else if data, err := s.Files.ReadFile("/old"); string(data) != "new" {
			t.Errorf("%q, %v; there are %q", data, err, s.Files.List())
		}
	}
}

// TestMoveToTheSameFile: mv fails where the host does nothing because both names are hard links to
// one file, or one name in two spellings.
func TestMoveToTheSameFile(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/d/a", "x")
	ok(t, os.Link(dir+"/d/a", dir+"/b"))
	ok(t, os.Symlink("d", dir+"/link"))
	r := newRig(startServer(t, dir))
	for _, names := range [][]string{{"d/a", "b"}, {"b", "d/a"}, {"d/a", "d/./a"}, {"link/a", "d"}} {
		err := Move(t.Context(), r.Env, MoveOptions{}, names)
		if _, said := r.take(); codeOf(err) != 1 || !strings.Contains(said, "the same file") {
			t.Errorf("mv %q: %v, %q", names, err, said)
		}
	}
	writeFile(t, dir+"/c", "x") // looks the same
	for _, name := range []string{"c", "b"} {
		ok(t, os.Chtimes(dir+"/"+name, time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}
	if err := Move(t.Context(), r.Env, MoveOptions{}, []string{"c", "b"}); err != nil {
		_, said := r.take()
		t.Errorf("another file: %v, %q", err, said)
	}
}

// TestLinksThatBecomeAbsolute: ln says once that a host such as Erlang's resolves a link's text.
func TestLinksThatBecomeAbsolute(t *testing.T) {
	server := sftptest.NewScripted(sftptest.Script{DraftSymlink: true})
	t.Cleanup(func() { server.Close() })
	r := newRig(clientOf(t, server.Dial(sftptest.LinkConfig{}),
		usftp.WithServerVersion("SSH-2.0-Erlang/4.15.2")))
	o := LinkOptions{Symbolic: true}
	server.Files.Mkdir("/d")
	ok(t, Link(t.Context(), r.Env, o, []string{"/f", "/n"}))
	if _, said := r.take(); said != "" {
		t.Errorf("of an absolute link it says %q", said)
	}
	ok(t, Link(t.Context(), r.Env, o, []string{"f", "g", "/d"}))
	_, said := r.take()
	if said != "relative symbolic links become absolute: the host stores where they lead" ||
		!slices.Contains(server.Files.List(), "/d/f -> /d/f") {
		t.Errorf("it says %q, with %q", said, server.Files.List())
	}
}
