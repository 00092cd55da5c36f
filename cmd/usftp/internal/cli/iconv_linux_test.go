package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// below lists what is below a directory, with the bytes of the names.
func below(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, name); rel != "." {
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// put writes files, each with its name in it, and makes their directories.
func put(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, at, []byte(name))
	}
}

// --iconv: names on the host are in its character set, whatever is done with them, also if its
// server follows no link beneath a directory.
func TestIconv(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	far := filepath.Join(dir, "far")
	here := []string{"gr\u00fcn", "\u00fcber", "\u00fcber/\u00df"}
	there := []string{"gr\xfcn", "\xfcber", "\xfcber/\xdf"}
	put(t, filepath.Join(dir, "src"), here[0], here[2])
	for what, server := range map[string]string{"OpenSSH": opensshd.Find(t, "sftp-server"),
		"ours": "usftp serve --stdio"} {
		flags := []string{"--iconv=ISO-8859-1", "--server=" + server}
		must := func(args ...string) string {
			t.Helper()
			o := run(t, dir, append(args[:1:1], append(flags, args[1:]...)...)...)
			if o.code != 0 {
				t.Errorf("%s: %q: %+v", what, args, o)
			}
			return o.stdout
		}
		must("cp", "-r", "src", "h:"+far)
		if got := below(t, far); !slices.Equal(got, there) {
			t.Errorf("%s: cp makes %q", what, got)
		}
		must("cp", "-r", "h:"+far, "back")
		if got := below(t, filepath.Join(dir, "back")); !slices.Equal(got, here) {
			t.Errorf("%s: cp brings %q", what, got)
		}
		put(t, far, "\xfcber/extra \xe4")
		must("sync", "--delete", "src", "h:"+far)
		if got := below(t, far); !slices.Equal(got, there) {
			t.Errorf("%s: sync leaves %q", what, got)
		}
		if got := must("ls", "-R", "h:"+far); !strings.Contains(got, "gr\u00fcn\n\u00fcber\n") {
			t.Errorf("%s: ls prints %q", what, got)
		}
		if got := must("find", "h:"+far, "-name", "\u00df"); got != far+"/\u00fcber/\u00df\n" {
			t.Errorf("%s: find prints %q", what, got)
		}
		must("mv", "h:"+far+"/gr\u00fcn", "h:"+far+"/\u00e9t\u00e9")
		must("rm", "-r", "h:"+far+"/\u00fcber")
		if got := below(t, far); !slices.Equal(got, []string{"\xe9t\xe9"}) {
			t.Errorf("%s: mv and rm leave %q", what, got)
		}
		os.RemoveAll(far)
		os.RemoveAll(filepath.Join(dir, "back"))
	}
}

// What has no equivalent is an error for that file; nothing else suffers, nothing is deleted for
// it, and names here may be in a character set of their own.
func TestIconvOfNamesWithoutEquivalent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := "--server=" + opensshd.Find(t, "sftp-server")
	put(t, dir, "src/good", "src/\u65e5\u672c", "far/\xfc", "far/plain", "local/\xa4\xa2")
	o := run(t, dir, "cp", "-r", "--iconv=ISO-8859-1", server, "src", "h:"+dir+"/copy")
	if got := below(t, filepath.Join(dir, "copy")); o.code != 1 || !slices.Equal(got,
		[]string{"good"}) || !strings.Contains(o.stderr, "\u65e5\u672c: the name cannot be converted") {
		t.Errorf("%+v, %q", o, got)
	}
	o = run(t, dir, "sync", "--delete", "--iconv=EUC-JP", server, "h:"+dir+"/far", "src")
	if got := below(t, filepath.Join(dir, "src")); o.code == 0 || !slices.Equal(got,
		[]string{"good", "plain", "\u65e5\u672c"}) ||
		!strings.Contains(o.stderr, "the name cannot be converted") {
		t.Errorf("%+v, %q", o, got)
	}
	o = run(t, dir, "sync", "--delete", "--iconv=EUC-JP", server, "src", "h:"+dir+"/far")
	if got := below(t, filepath.Join(dir, "far")); o.code != 0 || !slices.Equal(got,
		[]string{"good", "plain", "\xc6\xfc\xcb\xdc", "\xfc"}) {
		t.Errorf("%+v, %q", o, got)
	}
	o = run(t, dir, "cp", "-r", "--iconv=EUC-JP,Shift_JIS", server, "local", "h:"+dir+"/kana")
	if got := below(t, filepath.Join(dir, "kana")); o.code != 0 || !slices.Equal(got,
		[]string{"\x82\xa0"}) {
		t.Errorf("%+v, %q", o, got)
	}
	for _, charset := range []string{"nonsense", "UTF-16", "ISO-8859-1,", ""} {
		if o = run(t, dir, "cp", "--iconv", charset, "src/good", "h:x"); o.code != 2 {
			t.Errorf("%q: %+v", charset, o)
		}
	}
}
