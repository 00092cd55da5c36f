package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// needProgram skips a test, or fails it where nothing may be skipped.
func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("USFTP_REQUIRE") == "1" {
			t.Fatal(err)
		}
		t.Skipf("%s is not installed", name)
	}
}

// writeList writes a list of names, each of which has its own name as contents.
func writeList(t *testing.T, path string, a transfer.Algorithm, names ...string) {
	t.Helper()
	m, err := transfer.NewManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Discard()
	for _, name := range names {
		if err := m.Add(name, hashOf(a, []byte(name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Commit(); err != nil {
		t.Fatal(err)
	}
}

var oddNames = []string{"plain", "with space", " in front", "*star", "-", "-c", "back\\slash",
	"new\nline", "car\rriage", "end\r", "\\n", "#comment",
	"\xff\xfe", "ü", "dir/below", "dir/new\nline/below", strings.Repeat("long", 60)}

// What a list is made of comes back out of it, sorted, for every name that a file can have.
func TestManifestComesBack(t *testing.T) {
	for _, a := range []transfer.Algorithm{transfer.SHA256, transfer.BLAKE3} {
		path := filepath.Join(t.TempDir(), "list")
		writeList(t, path, a, oddNames...)
		list, err := transfer.OpenList(path, a)
		if err != nil {
			t.Fatal(err)
		}
		defer list.Close()
		want := slices.Clone(oddNames)
		slices.Sort(want)
		// b3sum has no escape for a carriage return, and an end of line swallows it
		if a == transfer.BLAKE3 {
			want = slices.DeleteFunc(want, func(name string) bool { return name == "end\r" })
		}
		got := slices.Collect(list.Missing())
		if a == transfer.BLAKE3 {
			got = slices.DeleteFunc(got, func(name string) bool { return name == "end" })
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: it has %q, want %q", a, got, want)
		}
		for _, name := range want {
			if listed, err := list.Check(name, hashOf(a, []byte(name))); !listed || err != nil {
				t.Errorf("%q: %v, %v", name, listed, err)
			}
			if listed, err := list.Check(name, hashOf(a, []byte("other"))); !listed ||
				!errors.Is(err, transfer.ErrList) {
				t.Errorf("%q with other contents: %v, %v", name, listed, err)
			}
		}
		if listed, err := list.Check("elsewhere", hashOf(a, nil)); listed || err != nil {
			t.Errorf("a name that it does not have: %v, %v", listed, err)
		}
	}
}

// sha256sum takes the list for one of its own, and makes the same of the same files.
func TestManifestIsThatOfSHA256Sum(t *testing.T) {
	needProgram(t, "sha256sum")
	dir := t.TempDir()
	for _, name := range oddNames {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	list := filepath.Join(t.TempDir(), "list")
	writeList(t, list, transfer.SHA256, oddNames...)
	check := exec.Command("sha256sum", "--check", "--strict", list)
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil ||
		bytes.Count(out, []byte(": OK\n")) != len(oddNames) {
		t.Errorf("%v\n%s", err, out)
	}
	for _, form := range []string{"--text", "--binary", "--tag"} {
		theirs := exec.Command("sha256sum", append([]string{form, "--"},
			strings.Split(strings.ReplaceAll(strings.Join(oddNames, "\x00"), "\x00-\x00",
				"\x00./-\x00"), "\x00")...)...)
		theirs.Dir = dir
		out, err := theirs.Output()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "theirs")
		os.WriteFile(path, out, 0o644)
		l, err := transfer.OpenList(path, transfer.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range oddNames {
			if listed, err := l.Check(name, hashOf(transfer.SHA256, []byte(name))); !listed ||
				err != nil {
				t.Errorf("%s: %q: %v, %v", form, name, listed, err)
			}
		}
		l.Close()
	}
}

// More files than memory should hold go through a file, and come out sorted, each once, with what
// was added last.
func TestManifestOfManyFiles(t *testing.T) {
	const files = 150_000
	dir := t.TempDir()
	path := filepath.Join(dir, "list")
	m, err := transfer.NewManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Discard()
	old, fresh := hashOf(transfer.SHA256, []byte("old")), hashOf(transfer.SHA256, []byte("fresh"))
	for i := range files {
		// Not in order, and a fifth of them twice.
		m.Add(fmt.Sprintf("%06d", i*7919%files), old)
	}
	for i := range files / 5 {
		m.Add(fmt.Sprintf("%06d", i*5), fresh)
	}
	if err := m.Commit(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) != files {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		want := old
		if i%5 == 0 {
			want = fresh
		}
		if line != fmt.Sprintf("%x  %06d", want.Sum, i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// The list takes its name when it is complete, and nothing is left of one that is not.
func TestManifestIsAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "list")
	os.WriteFile(path, []byte("old"), 0o600)
	m, err := transfer.NewManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	m.Add("a", hashOf(transfer.SHA256, nil))
	if data, _ := os.ReadFile(path); string(data) != "old" {
		t.Errorf("before it is complete it is %q", data)
	}
	m.Discard()
	if err := m.Add("b", hashOf(transfer.SHA256, nil)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("adding to what has ended: %v", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "old" {
		t.Errorf("discarded it is %q", data)
	}
	writeList(t, path, transfer.SHA256, "a")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the permissions have gone: %v, %v", info, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := transfer.NewManifest(filepath.Join(dir, "none", "list")); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
	if _, err := transfer.NewManifest(dir); !errors.Is(err, transfer.ErrIsDirectory) {
		t.Errorf("a directory: %v", err)
	}
}

// Names that lead elsewhere, and lines that are none, are refused with the line's number.
func TestHostileLists(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for name, text := range map[string]string{
		"absolute":        sum + "  /etc/passwd",
		"above":           sum + "  ../x",
		"above in it":     sum + "  a/../../x",
		"above, escaped":  `\` + sum + `  a\n/../x`,
		"NUL":             sum + "  a\x00b",
		"no name":         sum + "  ",
		"the directory":   sum + "  ./.",
		"short":           sum[1:] + "  a",
		"no hexadecimal":  "zz" + sum[2:] + "  a",
		"no space":        sum + "a",
		"one space":       sum + " a",
		"bad escape":      `\` + sum + `  a\tb`,
		"open escape":     `\` + sum + `  a\`,
		"another hash":    "MD5 (a) = " + sum,
		"tagged, above":   "SHA256 (../a) = " + sum,
		"a line too long": sum + "  " + strings.Repeat("x", 1<<20),
	} {
		path := filepath.Join(t.TempDir(), "list")
		os.WriteFile(path, []byte("# a list\n\n"+sum+"  ./good//name\n"+text+"\n"), 0o644)
		_, err := transfer.OpenList(path, transfer.SHA256)
		var line *transfer.ListError
		if !errors.As(err, &line) || line.Line != 4 || !errors.Is(err, transfer.ErrList) ||
			!strings.Contains(err.Error(), "list, line 4: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	m, err := transfer.NewManifest(filepath.Join(t.TempDir(), "list"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Discard()
	if err := m.Add("../x", hashOf(transfer.SHA256, nil)); err == nil {
		t.Error("a name that leads elsewhere is added")
	}
}

// A file that is not what the list says fails before it takes its name; what the list has and was
// not copied is missing.
func TestCopyAgainstList(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	source := b.sample("source")
	path := filepath.Join(b.dir, "list")
	m, err := transfer.NewManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.tree(transfer.Upload, source, "/good", func(tree *transfer.Tree) {
		tree.Options.Hash = transfer.SHA256
		tree.Options.Events = func(e transfer.Event) {
			if !e.Hash.IsZero() {
				m.Add(e.Name, e.Hash)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(); err != nil || m.Added() != 9 {
		t.Fatalf("%d files, %v", m.Added(), err)
	}
	for _, direction := range []transfer.Direction{transfer.Upload, transfer.Download} {
		list, err := transfer.OpenList(path, transfer.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		defer list.Close()
		from, to := source, "/checked"
		if direction == transfer.Download {
			from, to = "/good", filepath.Join(b.dir, "checked")
		}
		against := func(tree *transfer.Tree) { tree.Options.List = list }
		if s, err := b.tree(direction, from, to, against); err != nil || s.Files != 9 {
			t.Errorf("%v: %+v, %v", direction, s, err)
		}
		if missing := slices.Collect(list.Missing()); len(missing) > 0 {
			t.Errorf("%v: missing: %q", direction, missing)
		}
		if list.Len() != 9 {
			t.Errorf("%d lines", list.Len())
		}
	}
	// One small and one large file are others, one is gone and one has come.
	for _, name := range []string{"deep/er/small", "deep/er/and/large"} {
		data := b.remote("/good/" + name)
		data[0]++
		b.server.Files.WriteFile("/good/"+name, data)
	}
	b.server.Files.Remove("/good/one")
	b.server.Files.WriteFile("/good/new", []byte("new"))
	list, err := transfer.OpenList(path, transfer.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	s, err := b.tree(transfer.Download, "/good", filepath.Join(b.dir, "differs"),
		func(tree *transfer.Tree) { tree.Options.List = list })
	if !errors.Is(err, transfer.ErrList) || s.Failed != 2 || s.Files != 7 {
		t.Errorf("%+v, %v", s, err)
	}
	if got := b.kinds(transfer.Failed, "/good"); !slices.Equal(got,
		[]string{"deep/er/and/large", "deep/er/small"}) {
		t.Errorf("failed: %q", got)
	}
	if missing := slices.Collect(list.Missing()); !slices.Equal(missing, []string{"one"}) {
		t.Errorf("missing: %q", missing)
	}
	if notes := b.notes(); !slices.Contains(notes, "it is not in the list of hashes") {
		t.Errorf("the notes are %q", notes)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "differs/deep/er/small")); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("what differs has its name: %v", err)
	}
	if _, err := b.job(transfer.Download, "/good/deep/er/small", filepath.Join(b.dir, "deep"),
		func(j *transfer.Job) { j.Options.List = list }); err != nil {
		t.Errorf("a list that has another name only: %v", err)
	}
}
