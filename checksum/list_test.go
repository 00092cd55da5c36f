package checksum_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/testenv"
)

// writeList writes a list of files that contain their own names.
func writeList(t *testing.T, path string, a checksum.Algorithm, names ...string) {
	t.Helper()
	m, err := checksum.Create(path)
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

// What is added to a list is read back from it, sorted, for every name that a file can have.
func TestManifestComesBack(t *testing.T) {
	for _, a := range []checksum.Algorithm{checksum.SHA256, checksum.BLAKE3} {
		path := filepath.Join(t.TempDir(), "list")
		writeList(t, path, a, oddNames...)
		list, err := checksum.Open(path, a)
		if err != nil {
			t.Fatal(err)
		}
		defer list.Close()
		want := slices.Clone(oddNames)
		slices.Sort(want)
		// b3sum has no escape for a carriage return, and an end of line swallows it
		if a == checksum.BLAKE3 {
			want = slices.DeleteFunc(want, func(name string) bool { return name == "end\r" })
		}
		var got []string
		for name, err := range list.Missing() {
			if err != nil {
				t.Error(err)
			}
			got = append(got, name)
		}
		if a == checksum.BLAKE3 {
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
				!errors.Is(err, checksum.ErrMismatch) {
				t.Errorf("%q with other contents: %v, %v", name, listed, err)
			}
		}
		if listed, err := list.Check("elsewhere", hashOf(a, nil)); listed || err != nil {
			t.Errorf("a name that it does not have: %v, %v", listed, err)
		}
	}
}

// sha256sum accepts the list, and makes the same one from the same files.
func TestManifestIsThatOfSHA256Sum(t *testing.T) {
	testenv.Program(t, "sha256sum")
	dir := t.TempDir()
	for _, name := range oddNames {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	list := filepath.Join(t.TempDir(), "list")
	writeList(t, list, checksum.SHA256, oddNames...)
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
		l, err := checksum.Open(path, checksum.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range oddNames {
			if listed, err := l.Check(name, hashOf(checksum.SHA256, []byte(name))); !listed ||
				err != nil {
				t.Errorf("%s: %q: %v, %v", form, name, listed, err)
			}
		}
		l.Close()
	}
}

// More files than memory should hold go through a temporary file, and come out sorted, each once,
// with the last hash added.
func TestManifestOfManyFiles(t *testing.T) {
	const files = 150_000
	dir := t.TempDir()
	path := filepath.Join(dir, "list")
	m, err := checksum.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Discard()
	old, fresh := hashOf(checksum.SHA256, []byte("old")), hashOf(checksum.SHA256, []byte("fresh"))
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

// The list gets its name once complete, and an incomplete one leaves nothing behind.
func TestManifestIsAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "list")
	os.WriteFile(path, []byte("old"), 0o600)
	m, err := checksum.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	m.Add("a", hashOf(checksum.SHA256, nil))
	if data, _ := os.ReadFile(path); string(data) != "old" {
		t.Errorf("before it is complete it is %q", data)
	}
	m.Discard()
	if err := m.Add("b", hashOf(checksum.SHA256, nil)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("adding to what has ended: %v", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "old" {
		t.Errorf("discarded it is %q", data)
	}
	writeList(t, path, checksum.SHA256, "a")
	// Windows has no permission bits.
	if info, err := os.Stat(path); err != nil ||
		info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the permissions have gone: %v, %v", info, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := checksum.Create(filepath.Join(dir, "none", "list")); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
	if _, err := checksum.Create(dir); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
}

// TestReadOnlyManifest: the directory's permissions decide.
func TestReadOnlyManifest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	writeList(t, path, checksum.SHA256, "a")
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	writeList(t, path, checksum.SHA256, "b")
	list, err := checksum.Open(path, checksum.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	if list.Len() != 1 {
		t.Errorf("the list has %d files", list.Len())
	}
}

// Names that lead elsewhere, and invalid lines, are refused with the line's number.
// A pipe cannot be read again.
func TestListFromPipe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("pipes have no names")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	hash := hashOf(checksum.SHA256, []byte("text"))
	fmt.Fprintf(w, "%x  file\n", hash.Sum)
	w.Close()
	l, err := checksum.Open(fmt.Sprintf("/dev/fd/%d", r.Fd()), checksum.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	listed, err := l.Check("file", hash)
	if !listed || err != nil {
		t.Error(listed, err)
	}
}

// A list that is rewritten while it is used says so, rather than that less is listed.
func TestListChanges(t *testing.T) {
	hash := hashOf(checksum.SHA256, []byte("text"))
	listed := fmt.Sprintf("%x  ", hash.Sum)
	for name, text := range map[string]string{
		"emptied":      "",
		"cut short":    listed + "on",
		"other names":  listed + "uno\n",
		"not a list":   strings.Repeat("x", len(listed)+4),
		"another form": "SHA256 (one) = " + listed,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "list")
			os.WriteFile(path, []byte(listed+"one\n"), 0o644)
			list, err := checksum.Open(path, checksum.SHA256)
			if err != nil {
				t.Fatal(err)
			}
			defer list.Close()
			os.WriteFile(path, []byte(text), 0o644)
			says := path + " changed while it was used: "
			wrong := func(err error) bool {
				return !errors.Is(err, checksum.ErrMismatch) ||
					!strings.HasPrefix(err.Error(), says)
			}
			missing := 0
			for name, err := range list.Missing() {
				if missing++; name != "" || wrong(err) {
					t.Errorf("missing: %q, %v", name, err)
				}
			}
			if missing != 1 {
				t.Errorf("%d missing", missing)
			}
			if _, _, err := list.Find("one"); wrong(err) {
				t.Errorf("find: %v", err)
			}
			if listed, err := list.Check("one", hash); !listed || wrong(err) {
				t.Errorf("check: %v, %v", listed, err)
			}
		})
	}
}

func TestNilList(t *testing.T) {
	var list *checksum.List
	for name := range list.Missing() {
		t.Errorf("it has %q", name)
	}
	listed, err := list.Check("name", hashOf(checksum.SHA256, nil))
	if listed || err != nil || list.Len() != 0 || list.Close() != nil {
		t.Errorf("%v, %v, %d lines", listed, err, list.Len())
	}
}

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
		os.WriteFile(path, []byte("# a list\n\r\n"+sum+"  ./good//name\n"+text+"\n"), 0o644)
		_, err := checksum.Open(path, checksum.SHA256)
		var line *checksum.LineError
		if !errors.As(err, &line) || line.Line != 4 || !errors.Is(err, checksum.ErrMismatch) ||
			!strings.Contains(err.Error(), "list, line 4: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	m, err := checksum.Create(filepath.Join(t.TempDir(), "list"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Discard()
	if err := m.Add("../x", hashOf(checksum.SHA256, nil)); err == nil {
		t.Error("a name that leads elsewhere is added")
	}
}

func hashOf(a checksum.Algorithm, data []byte) checksum.Hash {
	h := a.New()
	h.Write(data)
	return checksum.Hash{Algorithm: a, Sum: h.Sum(nil)}
}
