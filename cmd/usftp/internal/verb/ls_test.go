package verb

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// randomTree makes a tree with names that sort awkwardly, links, times and modes.
func randomTree(t testing.TB, seed uint64, root string, depth int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	names := []string{"a", "a-b", "a b", "A", "b", "B", ".hidden", ".d", "z", "ä", "0", "x.tar",
		"-", "%s"}
	count := 0
	var fill func(dir string, depth int)
	fill = func(dir string, depth int) {
		ok(t, os.MkdirAll(dir, 0o755))
		for _, i := range rng.Perm(len(names))[:2+rng.IntN(6)] {
			name := filepath.Join(dir, names[i])
			// whole seconds, as SFTP has them, and no two the same
			count++
			when := time.Unix(time.Now().Unix()-int64(rng.IntN(400*24))*3600-int64(count), 0)
			switch n := rng.IntN(10); {
			case n < 4 && depth > 0:
				fill(name, depth-1)
				ok(t, os.Chmod(name, os.FileMode(0o700|rng.IntN(0o100))))
			case n == 4:
				ok(t, os.Symlink([]string{"a", "/nowhere", ".", "../b"}[rng.IntN(4)], name))
				tool(t, dir, "touch", "-h", "-d", fmt.Sprint("@", when.Unix()), name)
				continue
			default:
				ok(t, os.WriteFile(name, make([]byte, rng.IntN(1<<rng.IntN(17))), 0o644))
				ok(t, os.Chmod(name, os.FileMode(rng.IntN(0o1000))|os.FileMode(
					rng.IntN(8))<<21&os.ModeSetuid))
			}
			ok(t, os.Chtimes(name, when, when))
		}
	}
	fill(root, depth)
}

// blocks and links are what ls -l shows and SFTP does not report.
var (
	blocks = regexp.MustCompile(`(?m)^total .*\n`)
	links  = regexp.MustCompile(`(?m)^([-dlpsbc][-rwxsStT]{9}) +(\d+|\?) `)
)

func withoutBlocks(text string) string {
	return links.ReplaceAllString(blocks.ReplaceAllString(text, ""), "$1 ")
}

// TestListIsLs compares output and exit codes with those of this machine's ls.
func TestListIsLs(t *testing.T) {
	for seed := range uint64(6) {
		dir := t.TempDir()
		randomTree(t, seed, dir+"/tree", 3)
		r := newRig(startServer(t, dir))
		for _, test := range []struct {
			args  string
			o     ListOptions
			names []string
		}{
			{"-1", ListOptions{}, []string{"tree"}},
			{"-1a", ListOptions{All: true}, []string{"tree"}},
			{"-1A", ListOptions{AlmostAll: true}, nil},
			{"-l", ListOptions{Long: true}, []string{"tree"}},
			{"-la", ListOptions{Long: true, All: true}, []string{"tree"}},
			{"-lRA", ListOptions{Long: true, Recursive: true, AlmostAll: true}, []string{"tree"}},
			{"-lRt", ListOptions{Long: true, Recursive: true, Sort: SortByTime}, []string{"tree"}},
			{"-lRSr", ListOptions{Long: true, Recursive: true, Sort: SortBySize, Reverse: true},
				[]string{"."}},
			{"-lhn", ListOptions{Long: true, Human: true, Numeric: true}, []string{"tree"}},
			{"-1F", ListOptions{Classify: true}, []string{"tree"}},
			{"-1p", ListOptions{Slash: true}, []string{"tree", "tree/"}},
			{"-lF", ListOptions{Long: true, Classify: true}, []string{"tree"}},
			{"-d", ListOptions{Directory: true}, []string{"tree", "."}},
			{"-C", ListOptions{Columns: true}, []string{"tree"}},
			{"-CRA", ListOptions{Columns: true, Recursive: true, AlmostAll: true},
				[]string{"tree"}},
			{"-1", ListOptions{}, []string{"tree", "missing"}},
			{"-1R", ListOptions{Recursive: true}, []string{"tree", "tree/a", "tree/b"}},
		} {
			want, code := tool(t, dir, "ls",
				append([]string{test.args, "--quoting-style=literal", "-T0"}, test.names...)...)
			err := List(t.Context(), r.Env, test.o, test.names)
			got, _ := r.take()
			if withoutBlocks(got) != withoutBlocks(want) || codeOf(err) != code {
				t.Errorf("seed %d: ls %s %v: code %v, want %d\n%s\nwant\n%s", seed, test.args,
					test.names, err, code, got, want)
			}
		}
	}
}

// TestListWithoutPermission: a directory that cannot be listed has no heading, as with GNU's ls.
func TestListWithoutPermission(t *testing.T) {
	server := sftptest.NewServer(t, sftptest.Script{Faults: []sftptest.Fault{
		{On: wire.TypeOpendir, Path: "/d/no", Do: sftptest.Refuse(wire.PermissionDenied, "")}}})
	server.Files.WriteFile("/d/yes/f", nil)
	server.Files.Mkdir("/d/no")
	client := clientOf(t, server.Dial(sftptest.LinkConfig{}))
	r := newRig(client)
	code := codeOf(List(t.Context(), r.Env, ListOptions{Recursive: true}, []string{"/d"}))
	got, failed := r.take()
	if want := "/d:\nno\nyes\n\n/d/yes:\nf\n"; got != want || code != 1 {
		t.Errorf("code %d and %q, want 1 and %q", code, got, want)
	}
	if !strings.Contains(failed, "/d/no") || !strings.Contains(failed, "permission denied") {
		t.Errorf("it says %q", failed)
	}
}

func codeOf(err error) int {
	if err == nil {
		return 0
	}
	var code int
	if _, scanErr := fmt.Sscanf(err.Error(), "exit code %d", &code); scanErr != nil {
		return -1
	}
	return code
}

// TestListColors: the colours of GNU's ls.
func TestListColors(t *testing.T) {
	dir := t.TempDir()
	for i, mode := range []os.FileMode{0o755, 0o644, 0o777, 0o777 | os.ModeSticky,
		0o755 | os.ModeSticky} {
		ok(t, os.Mkdir(fmt.Sprintf("%s/d%d", dir, i), 0o700))
		ok(t, os.Chmod(fmt.Sprintf("%s/d%d", dir, i), mode))
	}
	for i, mode := range []os.FileMode{0o755, 0o644, 0o755 | os.ModeSetuid, 0o755 | os.ModeSetgid} {
		writeFile(t, fmt.Sprintf("%s/f%d", dir, i), "x")
		ok(t, os.Chmod(fmt.Sprintf("%s/f%d", dir, i), mode))
	}
	writeFile(t, dir+"/a.tar", "")
	writeFile(t, dir+"/b.TXT", "")
	ok(t, os.Symlink("d0", dir+"/link"))
	ok(t, os.Symlink("nowhere", dir+"/broken"))
	r := newRig(startServer(t, dir))
	for _, variable := range []string{"", "di=31:*.tar=01;35:*.txt=4:ex=1", "or=31;1:ln=target",
		"ex=\x1b]0;evil\a:di=31"} {
		t.Setenv("LS_COLORS", variable)
		for _, args := range []string{"-1", "-l"} {
			if variable == "" || strings.Contains(variable, "evil") {
				continue // GNU ls has only a few default colours of its own
			}
			want, _ := tool(t, dir, "ls", args, "--color=always", "--quoting-style=literal")
			r.Colors = ColorsFor("always", true)
			ok(t, List(t.Context(), r.Env, ListOptions{Long: args == "-l"}, nil))
			got, _ := r.take()
			// GNU ls writes the first reset only once, and also sends a sequence that erases the
			// line.
			plain := func(s string) string {
				return strings.NewReplacer("\x1b[0m", "", "\x1b[K", "", "\x1b[m",
					"").Replace(withoutBlocks(s))
			}
			if plain(got) != plain(want) {
				t.Errorf("LS_COLORS=%q ls %s:\n%q\nwant\n%q", variable, args, plain(got),
					plain(want))
			}
		}
		if c := ColorsFor("always", true); strings.ContainsAny(fmt.Sprint(c.kinds), "\x1b\a") {
			t.Errorf("LS_COLORS=%q gives %q", variable, c.kinds)
		}
	}
	t.Setenv("NO_COLOR", "1")
	if ColorsFor("auto", true) != nil || ColorsFor("always", false) == nil {
		t.Error("NO_COLOR is not obeyed")
	}
}

// TestListHostileNames: nothing that a server sends reaches a terminal unescaped.
func TestListHostileNames(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/evil\x1b]0;x\a\nline", "")
	ok(t, os.Symlink("to\x1b[2J", dir+"/link"))
	r := newRig(startServer(t, dir))
	r.Terminal = true
	ok(t, List(t.Context(), r.Env, ListOptions{Long: true}, nil))
	out, _ := r.take()
	if strings.ContainsAny(out, "\x1b\a") || strings.Count(out, "\n") != 2 {
		t.Errorf("%q", out)
	}
	r.Terminal, r.JSON = false, true
	ok(t, List(t.Context(), r.Env, ListOptions{}, nil))
	if out, _ = r.take(); strings.ContainsAny(out, "\x1b\a") || strings.Count(out, "\n") != 2 {
		t.Errorf("%q", out)
	}
}
