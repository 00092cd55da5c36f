//go:build linux

package servers_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
)

var (
	big   = string(servetest.RandomData(300_000))
	other = string(servetest.RandomData(400_000)[1:])
	when  = time.Date(2021, 3, 4, 5, 6, 7, 0, time.UTC)
)

// steps are what a user does on a host. Each has an empty directory here and one on the host.
var steps = []struct {
	name string
	do   func(s *step)
}{
	{"cp up", func(s *step) {
		s.here("a", big)
		s.usftp("cp", "a", s.far("b"))
		s.there(map[string]string{"b": big})
	}},
	{"cp down", func(s *step) {
		s.put("a", big)
		s.usftp("cp", s.far("a"), "b")
		s.got(map[string]string{"b": big})
	}},
	{"cp an empty file", func(s *step) {
		s.here("a", "")
		s.usftp("cp", "a", s.far("b"))
		s.usftp("cp", s.far("b"), "c")
		s.there(map[string]string{"b": ""})
		s.got(map[string]string{"a": "", "c": ""})
	}},
	{"cp over an old file", func(s *step) {
		s.put("old", other)
		s.here("old", other)
		s.here("a", big)
		s.usftp("cp", "a", s.far("old"))
		s.usftp("cp", s.far("old"), "old")
		s.there(map[string]string{"old": big})
		s.got(map[string]string{"a": big, "old": big})
	}},
	{"cp several files up", func(s *step) {
		s.here("a", "1")
		s.here("b", "")
		s.here("c", big)
		s.usftp("cp", "a", "b", "c", s.far("."))
		s.there(map[string]string{"a": "1", "b": "", "c": big})
	}},
	{"cp a pattern down", func(s *step) {
		s.put("1.txt", "one")
		s.put("2.txt", "two")
		s.put("3.bin", "three")
		s.usftp("cp", s.far("*.txt"), ".")
		s.got(map[string]string{"1.txt": "one", "2.txt": "two"})
	}},
	{"cp -r up", func(s *step) {
		s.hereTree("d")
		s.usftp("cp", "-r", "d", s.far("e"))
		s.there(under("e", tree))
	}},
	{"cp -r down", func(s *step) {
		s.putTree("d")
		s.usftp("cp", "-r", s.far("d"), "e")
		s.got(under("e", tree))
	}},
	{"cp -r of many files", func(s *step) {
		many := make(map[string]string)
		for i := range 60 {
			name := fmt.Sprintf("d/%d/%d", i%3, i)
			many["d"], many[fmt.Sprintf("d/%d", i%3)] = isDir, isDir
			many[name] = strings.Repeat(name, 100)
			s.here(name, many[name])
		}
		s.usftp("cp", "-r", "d", s.far("d"))
		s.there(many)
		s.must(os.RemoveAll(filepath.Join(s.local, "d")))
		s.usftp("cp", "-r", s.far("d"), "d")
		s.got(many)
	}},
	{"cp -p up", func(s *step) {
		s.here("a", "text")
		s.must(os.Chmod(filepath.Join(s.local, "a"), 0o640))
		s.must(os.Chtimes(filepath.Join(s.local, "a"), when, when))
		s.usftp("cp", "-p", "a", s.far("b"))
		s.there(map[string]string{"b": "text"})
		s.thereAttrs("b", 0o640, when)
	}},
	{"cp -p down", func(s *step) {
		s.put("a", "text")
		mode, mtime := s.disk.Attrs(s.name("a"))
		s.usftp("cp", "-p", s.far("a"), "b")
		s.got(map[string]string{"b": "text"})
		info, err := os.Stat(filepath.Join(s.local, "b"))
		s.must(err)
		if info.Mode() != mode || info.ModTime().Unix() != mtime.Unix() {
			s.Errorf("the copy has %v, %v, not %v, %v", info.Mode(), info.ModTime(), mode, mtime)
		}
	}},
	{"cp from standard input", func(s *step) {
		s.stdin = big
		s.usftp("cp", "-", s.far("a"))
		s.there(map[string]string{"a": big})
	}},
	{"cp to standard output", func(s *step) {
		s.put("a", big)
		if out := s.usftp("cp", s.far("a"), "-"); out != big {
			s.Errorf("%d other bytes arrived", len(out))
		}
	}},
	{"cp --resume up", func(s *step) {
		long := strings.Repeat(big, 25)
		s.here("a", long)
		s.interrupted("a", s.far("b"))
		if state := s.disk.State(s.name("b")); state != "" {
			s.Errorf("after half of the copy there is %.10q", state)
		}
		s.resumed(s.usftp("cp", "--json", "--resume", "a", s.far("b")))
		s.there(map[string]string{"b": long})
	}},
	{"cp --resume down", func(s *step) {
		long := strings.Repeat(big, 25)
		s.put("a", long)
		s.interrupted(s.far("a"), "b")
		if _, err := os.Lstat(filepath.Join(s.local, "b")); err == nil {
			s.Error("after half of the copy there is a target")
		}
		s.resumed(s.usftp("cp", "--json", "--resume", s.far("a"), "b"))
		s.got(map[string]string{"b": long})
	}},
	{"cp --verify", func(s *step) {
		s.here("a", big)
		up := s.usftp("cp", "--json", "--verify", "a", s.far("b"))
		down := s.usftp("cp", "--json", "--verify", s.far("b"), "c")
		for _, events := range []string{up, down} {
			if !strings.Contains(events, `"verified":`) {
				s.Errorf("nothing was verified: %s", events)
			}
		}
		s.there(map[string]string{"b": big})
		s.got(map[string]string{"a": big, "c": big})
	}},
	{"cp --manifest and check", func(s *step) {
		s.hereTree("d")
		s.usftp("cp", "-r", "--manifest", "sums", "d", s.far("e"))
		s.usftp("check", "sums", s.far("e"))
		s.put("e/a", "changed")
		if o := s.run("check", "sums", s.far("e")); o.code != 1 ||
			!strings.Contains(o.stdout, "a: FAILED") {
			s.Errorf("a changed file: %+v", o)
		}
	}},
	{"cp on the host", func(s *step) {
		s.put("a", big)
		s.usftp("cp", s.far("a"), s.far("b"))
		s.there(map[string]string{"a": big, "b": big})
	}},
	{"sync up", func(s *step) {
		s.hereTree("d")
		s.usftp("sync", "d", s.far("e"))
		s.there(under("e", tree))
		if n := s.copied(s.usftp("sync", "--json", "d", s.far("e"))); n != 0 {
			s.Errorf("the second run copied %d files", n)
		}
		s.here("d/a", "another text")
		if n := s.copied(s.usftp("sync", "--json", "d", s.far("e"))); n != 1 {
			s.Errorf("after one file has changed, %d were copied", n)
		}
		if state := s.disk.State(s.name("e/a")); state != "= another text" {
			s.Errorf("the changed file is %q", state)
		}
	}},
	{"sync --delete up", func(s *step) {
		s.hereTree("d")
		s.put("e/old", "old")
		s.put("e/gone/deep/old", "old")
		s.usftp("sync", "--delete", "d", s.far("e"))
		s.there(under("e", tree))
	}},
	{"sync --delete down", func(s *step) {
		s.putTree("d")
		s.here("e/old", "old")
		s.here("e/gone/deep/old", "old")
		s.usftp("sync", "--delete", s.far("d"), "e")
		s.got(under("e", tree))
	}},
	{"sync --checksum", func(s *step) {
		s.here("d/a", "one")
		s.here("d/b", "two")
		s.usftp("sync", "d", s.far("e"))
		s.here("d/a", "eno")
		if n := s.copied(s.usftp("sync", "--json", "--checksum", "d", s.far("e"))); n != 1 {
			s.Errorf("after one file has changed, %d were copied", n)
		}
		s.there(map[string]string{"e": isDir, "e/a": "eno", "e/b": "two"})
	}},
	{"links in trees", func(s *step) {
		links := map[string]string{"d": isDir, "d/a": "text", "d/sub": isDir, "d/beside": "-> a",
			"d/sub/above": "-> ../a"}
		s.hereFiles(links)
		s.usftp("cp", "-r", "d", s.far("d"))
		s.there(links)
		if out := s.usftp("sync", "--json", "d", s.far("d")); s.copied(out) != 0 {
			s.Errorf("a sync of what is equal: %s", out)
		}
		s.must(os.RemoveAll(filepath.Join(s.local, "d")))
		s.putFiles(under("other", links))
		s.usftp("cp", "-r", s.far("other/d"), "d")
		s.got(links)
		s.usftp("sync", "--delete", s.far("other/d"), "d")
		s.got(links)
	}},
	{"ls", func(s *step) {
		s.putTree("d")
		if out := s.usftp("ls", s.far("d")); out != "a\nempty\nsub\n" {
			s.Errorf("ls printed %q", out)
		}
		out := s.usftp("ls", "-l", s.far("d"))
		for _, line := range []string{`(?m)^-rw.* 300000 .* a$`, `(?m)^d.* sub$`} {
			if !regexp.MustCompile(line).MatchString(out) {
				s.Errorf("ls -l printed %q, without %s", out, line)
			}
		}
	}},
	{"find", func(s *step) {
		s.putTree("d")
		all := strings.Split(strings.TrimSpace(s.usftp("find", s.far("d"))), "\n")
		files := s.usftp("find", s.far("d"), "-type", "f", "-size", "+1k")
		if len(all) != 1+len(tree) || !regexp.MustCompile(`^\S*/d/a\n$`).MatchString(files) {
			s.Errorf("find found %q, and of large files %q", all, files)
		}
	}},
	{"cat, head and tail", func(s *step) {
		text := ""
		for i := range 3000 {
			text += fmt.Sprintf("line %d\n", i)
		}
		s.put("a", text)
		for _, c := range []struct{ verb, want string }{{"cat", text},
			{"head", text[:strings.Index(text, "line 10\n")]},
			{"tail", text[strings.Index(text, "line 2990\n"):]}} {
			if out := s.usftp(c.verb, s.far("a")); out != c.want {
				s.Errorf("%s printed %d bytes, not %d", c.verb, len(out), len(c.want))
			}
		}
		if s.host.real != "" {
			s.follow(filepath.Join(s.host.real, s.name("a")))
		}
	}},
	{"stat", func(s *step) {
		s.put("a", big)
		mode, mtime := s.disk.Attrs(s.name("a"))
		want := fmt.Sprintf("%o 300000 %d\n", mode, mtime.Unix())
		if out := s.usftp("stat", "-c", "%a %s %Y", s.far("a")); out != want {
			s.Errorf("stat printed %q, not %q", out, want)
		}
		if o := s.run("stat", s.far("missing")); o.code == 0 || !oneLine(o.stderr) {
			s.Errorf("stat of a file that does not exist: %+v", o)
		}
	}},
	{"mkdir and rmdir", func(s *step) {
		s.usftp("mkdir", "-p", s.far("a/b/c"))
		s.usftp("mkdir", "-p", s.far("a/b/c"), s.far("a/d"))
		s.there(map[string]string{"a": isDir, "a/b": isDir, "a/b/c": isDir, "a/d": isDir})
		if o := s.run("rmdir", s.far("a")); o.code == 0 || !oneLine(o.stderr) {
			s.Errorf("rmdir of a full directory: %+v", o)
		}
		s.usftp("rmdir", s.far("a/b/c"), s.far("a/b"))
		s.there(map[string]string{"a": isDir, "a/d": isDir})
	}},
	{"mv", func(s *step) {
		s.putTree("d")
		s.put("f", "text")
		s.usftp("mv", s.far("d"), s.far("e"))
		s.usftp("mv", s.far("f"), s.far("e/empty"))
		want := under("e", tree)
		want["e/empty/f"] = "text"
		s.there(want)
	}},
	{"mv over a file", func(s *step) {
		s.put("a", "new")
		s.put("b", "old")
		s.usftp("mv", s.far("a"), s.far("b"))
		s.there(map[string]string{"b": "new"})
	}},
	{"ln -s", func(s *step) {
		s.put("a", "text")
		s.put("c", "other")
		s.usftp("ln", "-s", "a", s.far("b"))
		s.there(map[string]string{"a": "text", "b": "-> a", "c": "other"})
		s.usftp("ln", "-sfn", "c", s.far("b"))
		s.there(map[string]string{"a": "text", "b": "-> c", "c": "other"})
	}},
	{"ln", func(s *step) {
		s.put("a", "text")
		s.usftp("ln", s.far("a"), s.far("b"))
		s.there(map[string]string{"a": "text", "b": "text"})
	}},
	{"chmod", func(s *step) {
		s.put("a", "text")
		s.usftp("chmod", "750", s.far("a"))
		s.thereAttrs("a", 0o750, time.Time{})
		s.usftp("chmod", "-R", "u-x,o+r", s.far("a"))
		s.thereAttrs("a", 0o654, time.Time{})
	}},
	{"touch", func(s *step) {
		s.put("a", "text")
		s.usftp("touch", "-d", when.Format(time.RFC3339), s.far("a"), s.far("b"))
		s.there(map[string]string{"a": "text", "b": ""})
		s.thereAttrs("a", 0, when)
		s.thereAttrs("b", 0, when)
	}},
	{"df", func(s *step) {
		out := s.usftp("df", s.far("."))
		if !regexp.MustCompile(`(?m)^far\S*( +[1-9]\d*) +\d+ +\d+ +\d+% `).MatchString(out) {
			s.Errorf("df printed %q", out)
		}
	}},
	{"du", func(s *step) {
		s.putTree("d")
		if out := s.usftp("du", "-sb", s.far("d")); !regexp.MustCompile(
			`^(\d+)\t\S+/d\n$`).MatchString(out) || out < "300004" {
			s.Errorf("du printed %q", out)
		}
		if out := s.usftp("du", "-ab", s.far("d")); !strings.Contains(out, "300000\t") {
			s.Errorf("du -a printed %q", out)
		}
	}},
	{"shell: a batch", func(s *step) {
		s.here("a", big)
		s.stdin = "cd " + s.dir() + "\nput a b\nmkdir c\nrename b c/d\nget c/d e\nls c\n" +
			"-rm missing\nput a f\nrm f\n"
		if out := s.usftp("shell", "-b", "-", "far"); !regexp.MustCompile(
			`(?m)^(c/)?d *$`).MatchString(out) {
			s.Errorf("ls printed %q", out)
		}
		s.there(map[string]string{"c": isDir, "c/d": big})
		s.got(map[string]string{"a": big, "e": big})
	}},
	{"shell: reget", func(s *step) {
		s.put("a", big)
		s.here("a", big[:100_000])
		s.stdin = "cd " + s.dir() + "\nreget a\n"
		s.usftp("shell", "-b", "-", "far")
		s.got(map[string]string{"a": big})
		s.there(map[string]string{"a": big})
	}},
	{"shell: reput", func(s *step) {
		s.put("a", big[:100_000])
		s.here("a", big)
		s.stdin = "cd " + s.dir() + "\nreput a\n"
		s.usftp("shell", "-b", "-", "far")
		s.there(map[string]string{"a": big})
		s.got(map[string]string{"a": big})
	}},
	{"mount", func(s *step) {
		s.put("a", big)
		s.put("f", "contents")
		s.put("g", "contents")
		links := s.host.real != "" && !slices.ContainsFunc(s.limits, func(l limit) bool {
			return l.why == "reading relative links"
		})
		if links {
			s.putDir("links")
			s.disk.Symlink("../f", s.name("links/one"))
		}
		at := filepath.Join(s.local, "at")
		s.must(os.Mkdir(at, 0o755))
		s.usftp("mount", s.far("."), at)
		unmounted := false
		s.Cleanup(func() {
			if !unmounted {
				exec.Command("fusermount3", "-uz", at).Run()
			}
		})
		name := func(n string) string { return filepath.Join(at, n) }
		data, err := os.ReadFile(name("a"))
		if err != nil || string(data) != big {
			s.Errorf("%d bytes were read, %v", len(data), err)
		}
		if links {
			s.mountedLinks(name("links"))
		}
		for _, err := range []error{os.WriteFile(name("b"), []byte(other), 0o644),
			os.Mkdir(name("c"), 0o755), os.Rename(name("b"), name("c/d")),
			os.WriteFile(name("e"), []byte("text"), 0o644), os.Rename(name("e"), name("a"))} {
			if err != nil {
				s.Error(err)
			}
		}
		for n, flag := range map[string]int{"f": os.O_WRONLY, "g": os.O_RDWR | os.O_TRUNC} {
			f, err := os.OpenFile(name(n), flag, 0)
			s.must(err)
			_, err = f.WriteString("new")
			s.must(err)
			s.must(f.Close())
		}
		if out, err := exec.Command("mapnew", name("h")).CombinedOutput(); err != nil {
			s.Errorf("a new file that is mapped: %v: %s", err, out)
		}
		if entries, err := os.ReadDir(at); err != nil || len(entries) != 5 {
			s.Errorf("the mount has %v, %v", entries, err)
		}
		// What another step is starting holds this process's files until it is another program.
		testenv.Until(s.T, "nothing uses the mount", func() bool {
			o := s.run("umount", at)
			unmounted = o.code == 0
			if !unmounted && !strings.Contains(o.stderr, "programs are using it") {
				s.Fatalf("umount: %+v", o)
			}
			return unmounted
		})
		s.there(map[string]string{"a": "text", "c": isDir, "c/d": other, "f": "newtents", "g": "new",
			"h": "begin" + strings.Repeat("\x00", mapped-10) + "ended"})
	}},
	{"rm", func(s *step) {
		s.putTree("d")
		s.put("a", "text")
		s.put("b", "text")
		s.usftp("rm", s.far("a"))
		s.there(mix(under("d", tree), map[string]string{"b": "text"}))
		s.usftp("rm", "-r", s.far("d"))
		s.there(map[string]string{"b": "text"})
		if o := s.run("rm", s.far("missing")); o.code == 0 || !oneLine(o.stderr) {
			s.Errorf("rm of a file that does not exist: %+v", o)
		}
	}},
	{"leftovers", func(s *step) {
		for _, name := range slices.Concat(s.disk.Names("."), s.host.nearNames()) {
			if base := filepath.Base(name); strings.Contains(base, ".usftp-") ||
				strings.HasPrefix(base, ".usftp") {
				s.Errorf("%s is left", name)
			}
		}
	}},
}

// isDir is what [step.there] and [step.got] are told of a directory; "-> " is in front of a link's
// text.
const isDir = "\x00dir"

// tree is a directory with all that a tree usually has.
var tree = map[string]string{"a": big, "sub": isDir, "sub/b": "text", "sub/deep": isDir,
	"sub/deep/c": "", "empty": isDir}

// under returns a tree with a directory around it.
func under(dir string, tree map[string]string) map[string]string {
	all := map[string]string{dir: isDir}
	for name, data := range tree {
		all[dir+"/"+name] = data
	}
	return all
}

func mix(trees ...map[string]string) map[string]string {
	all := make(map[string]string)
	for _, t := range trees {
		for name, data := range t {
			all[name] = data
		}
	}
	return all
}

// mountedLinks reads a link that was in a directory of a mount before, and one that is copied there,
// and removes the directory.
func (s *step) mountedLinks(dir string) {
	s.Helper()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	s.must(os.Symlink("../f", filepath.Join(s.local, "two")))
	// Few hosts set a link's times, which is no failure.
	if out, err := exec.Command("cp", "-a", filepath.Join(s.local, "two"), two).
		CombinedOutput(); err != nil {
		s.Errorf("cp -a: %v: %s", err, out)
	}
	for _, link := range []string{one, two} {
		text, err := os.Readlink(link)
		data, readErr := os.ReadFile(link)
		if text != "../f" || string(data) != "contents" {
			s.Errorf("%s leads to %q with %q, %v, %v", link, text, data, err, readErr)
		}
		s.must(os.Remove(link))
	}
	s.must(os.Remove(dir))
}

// follow appends to a file whose end tail -f prints.
func (s *step) follow(file string) {
	s.Helper()
	cmd := s.command("tail", "-f", "-n", "1", "-s", "0.05", s.far(filepath.Base(file)))
	out, err := cmd.StdoutPipe()
	s.must(err)
	s.must(cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	log, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	s.must(err)
	defer log.Close()
	lines := bufio.NewScanner(out)
	for n := 2999; n < 3003; n++ {
		if want := fmt.Sprintf("line %d", n); !lines.Scan() || lines.Text() != want {
			s.Fatalf("tail -f printed %q, %v, not %q", lines.Text(), lines.Err(), want)
		}
		fmt.Fprintf(log, "line %d\n", n+1)
	}
}

// interrupted begins a copy, and interrupts it once it has copied something.
func (s *step) interrupted(from, to string) {
	s.Helper()
	cmd := s.command("cp", "--json", "-l", "2MB", from, to)
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.StdoutPipe()
	s.must(err)
	s.must(cmd.Start())
	events, stopped := json.NewDecoder(out), false
	for {
		var e struct {
			Kind  string
			Bytes int64
		}
		if events.Decode(&e) != nil {
			break
		}
		if e.Kind == "progress" && e.Bytes > 2e6 && !stopped {
			stopped = true
			s.must(cmd.Process.Signal(syscall.SIGINT))
		}
	}
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		s.refusal(outcome{cmd.ProcessState.ExitCode(), "", words.String()})
		s.Fatalf("the copy ended with %v: %s", cmd.ProcessState, &words)
	}
}

// resumed checks that a copy has continued, by its events, or said why not.
func (s *step) resumed(events string) {
	s.Helper()
	if s.limit != nil && regexp.MustCompile(s.limit.says).MatchString(events) {
		s.said = true
	} else if !regexp.MustCompile(`"kind":"done".*"resumed":[1-9]`).MatchString(events) {
		s.Errorf("it started over: %s", events)
	}
}

// copied returns how many files were copied, by a run's events.
func (s *step) copied(events string) int {
	s.Helper()
	lines := strings.Split(strings.TrimSpace(events), "\n")
	var last struct{ Copied *int }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Copied == nil {
		s.Fatalf("%v: %s", err, events)
	}
	return *last.Copied
}
