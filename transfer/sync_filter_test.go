package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// ask runs a program in a directory and returns its output.
func ask(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1",
		"XDG_CONFIG_HOME="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

// shrub makes a random tree of names that patterns are likely to match.
func shrub(t *testing.T, rng *rand.Rand, root string) {
	t.Helper()
	dirs := []string{root}
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		dir := dirs[rng.IntN(len(dirs))]
		name := filepath.Join(dir, shrubNames[rng.IntN(len(shrubNames))])
		var err error
		switch rng.IntN(5) {
		case 0, 1:
			if err = os.Mkdir(name, 0o755); err == nil {
				dirs = append(dirs, name)
			}
		case 2:
			err = os.Symlink("x", name)
		default:
			if _, there := os.Lstat(name); there != nil {
				err = os.WriteFile(name, []byte("x"), 0o644)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
}

var shrubNames = []string{"a", "b", "c", "ab", "abc", "a.c", "ba", "a b", "*", "[a]", `a\b`, "é",
	"x.o",
	".hidden", "B", "-", "]", "a!", "#a", "0"}

// shrubPattern makes a random pattern from meaningful pieces, or nearly so.
func shrubPattern(rng *rand.Rand) string {
	pieces := []string{"a", "b", "c", "*", "**", "?", "/", "/", "[ab]", "[!a]", "[^b]", "[a-c]",
		"[]a]",
		"[[:alpha:]]", "[[:digit:][:upper:]]", `\*`, `\`, ".", "***", "[", "ab", "é", "-", "!", " ",
		"[a-]", `[\]]`, "[z-a]", "#", "*.o", ".*"}
	var b strings.Builder
	if rng.IntN(4) == 0 {
		b.WriteByte('/')
	}
	for range 1 + rng.IntN(4) {
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	if rng.IntN(5) == 0 {
		b.WriteByte('/')
	}
	return b.String()
}

// The filters of copies and syncs decide as rsync's do, on the same trees and patterns.
func TestFiltersAsRsync(t *testing.T) {
	t.Parallel()
	rsync := testenv.Program(t, "rsync")
	excluding := 0
	runs := soak.Pick(12, 60)
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		src := filepath.Join(dir, "src")
		shrub(t, rng, src)
		var o transfer.SyncOptions
		args := []string{rsync, "-a"}
		for range 1 + rng.IntN(4) {
			pattern := shrubPattern(rng)
			if pattern == "/" || strings.HasPrefix(pattern, "- ") { // no patterns to rsync
				continue
			}
			flag := "--exclude="
			include := rng.IntN(3) == 0
			if include {
				flag = "--include="
			}
			args = append(args, flag+pattern)
			o.Filter = transfer.AppendFilter(o.Filter, pattern, include)
		}
		ask(t, dir, append(args, "src/", "theirs")...)
		j := &syncJob{direction: local, src: src, dst: filepath.Join(dir, "ours"), options: o}
		j.must(t)
		copied := filepath.Join(dir, "copied")
		_, err := transfer.CopyTree(t.Context(), transfer.Local(copied), transfer.Local(src),
			o.TreeOptions)
		if err != nil {
			t.Fatal(err)
		}
		theirs := filesIn(filepath.Join(dir, "theirs"))
		for _, ours := range []string{j.dst, copied} {
			if have := filesIn(ours); !slices.Equal(have, theirs) {
				t.Errorf("seed %d: %q: %s has\n%q\nrsync's\n%q\nof\n%q", seed, args[2:],
					filepath.Base(ours), have, theirs, filesIn(src))
			}
		}
		if len(theirs) < len(filesIn(src)) {
			excluding++
		}
	}
	if excluding < runs/6 {
		t.Errorf("only %d of the lists exclude anything", excluding)
	}
}

// Ignore files decide as git's do.
func TestSyncIgnoresAsGit(t *testing.T) {
	t.Parallel()
	git := testenv.Program(t, "git")
	for seed := range uint64(soak.Pick(8, 40)) {
		rng := rand.New(rand.NewPCG(seed, 2))
		dir := t.TempDir()
		src := filepath.Join(dir, "src")
		shrub(t, rng, src)
		var texts []string
		filepath.WalkDir(src, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() || name != src && rng.IntN(3) > 0 {
				return err
			}
			var b strings.Builder
			for range 1 + rng.IntN(4) {
				line := shrubPattern(rng)
				if rng.IntN(3) == 0 {
					line = "!" + line
				}
				b.WriteString(line + "\n")
			}
			texts = append(texts, fmt.Sprintf("%s: %q", name, b.String()))
			return os.WriteFile(filepath.Join(name, ".gitignore"), []byte(b.String()), 0o644)
		})
		ask(t, src, git, "init", "-q")
		theirs := strings.Split(strings.Trim(ask(t, src, git, "ls-files", "-o", "-z",
			"--exclude-per-directory=.gitignore"), "\x00"), "\x00")
		j := &syncJob{direction: local, src: src, dst: filepath.Join(dir, "ours"),
			options: transfer.SyncOptions{IgnoreFile: ".gitignore",
				TreeOptions: transfer.TreeOptions{Filter: rules("/.git/")}}}
		j.must(t)
		ours := slices.DeleteFunc(filesIn(j.dst), func(name string) bool {
			info, err := os.Lstat(filepath.Join(j.dst, name))
			return err != nil || info.IsDir()
		})
		slices.Sort(theirs)
		slices.Sort(ours)
		if theirs = slices.DeleteFunc(theirs, func(s string) bool {
			return s == ""
		}); !slices.Equal(ours, theirs) {
			t.Errorf("seed %d: %s\nours are\n%q\ngit's\n%q\nof\n%q", seed,
				strings.Join(texts, "\n"), ours, theirs, filesIn(src))
		}
	}
}

// What is excluded is not deleted, nor is a directory that contains some of it.
func TestSyncExcludedStays(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "a", "b.o", "d/.gitignore", "d/c")
		os.WriteFile(filepath.Join(src, "d/.gitignore"), []byte("*.log\n!keep.log\n"), 0o644)
		fill(t, dst, "x", "x.o", "gone/x.o", "gone/y", "d/x", "d/x.log", "d/keep.log", "d/e/x.log")
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true, IgnoreFile: ".gitignore",
				TreeOptions: transfer.TreeOptions{Filter: rules("*.o")}}}
		j.must(t)
		want := []string{"a", "d", "d/.gitignore", "d/c", "d/e", "d/e/x.log", "d/x.log", "gone",
			"gone/x.o", "x.o"}
		if got := filesIn(dst); !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
	})
}

// A rule that is for directories only excludes one of the source, but no file of the same name at
// the target: the source does not have that, so it is deleted, as by rsync.
func TestSyncDeletesAFileNamedAsAnExcludedDirectory(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "build/x", "d/.gitignore", "d/out/x")
		os.WriteFile(filepath.Join(src, "d/.gitignore"), []byte("out/\n"), 0o644)
		fill(t, dst, "build", "d/out", "d/kept/out/x")
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true, IgnoreFile: ".gitignore",
				TreeOptions: transfer.TreeOptions{Filter: rules("build/")}}}
		j.must(t)
		want := []string{"d", "d/.gitignore", "d/kept", "d/kept/out", "d/kept/out/x"}
		if got := filesIn(dst); !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
	})
}

func TestReadFilter(t *testing.T) {
	rules, err := transfer.ReadFilter(nil,
		strings.NewReader("# a comment\n; another\n\nlost\n!\n*.o\r\n+ keep\n- a b\n"), false)
	want := []transfer.FilterRule{{Pattern: "*.o"}, {Pattern: "keep", Include: true},
		{Pattern: "a b"}}
	if err != nil || !slices.Equal(rules, want) {
		t.Errorf("%+v, %v, want %+v", rules, err, want)
	}
	// Notepad may put a mark before the first rule; PowerShell 5 writes UTF-16, which has no rules.
	rules, err = transfer.ReadFilter(nil, strings.NewReader("\ufeff*.o\r\n"), false)
	if err != nil || !slices.Equal(rules, want[:1]) {
		t.Errorf("after a byte order mark: %+v, %v", rules, err)
	}
	list, err := transfer.ReadFileList(strings.NewReader("\ufeffname\r\n"), false)
	if err != nil || !slices.Equal(list.Names, []string{"name"}) {
		t.Errorf("after a byte order mark: %+v, %v", list, err)
	}
	rules, err = transfer.ReadFilter(nil, strings.NewReader("\xff\xfe*\x00.\x00o\x00\r\x00\n\x00"), false)
	if !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("of UTF-16: %+v, %v", rules, err)
	}
	for _, bad := range []string{"", "/"} {
		j := &syncJob{direction: local, src: t.TempDir(), dst: t.TempDir(),
			options: transfer.SyncOptions{TreeOptions: transfer.TreeOptions{Filter: []transfer.FilterRule{{Pattern: bad}}}}}
		if _, err := j.run(t); err == nil {
			t.Errorf("the pattern %q was taken", bad)
		}
	}
}
