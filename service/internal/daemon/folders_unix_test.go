//go:build unix

package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFolders: OpenSSH's client sees several directories in one tree, each with its rules.
func TestFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"shared", "prices"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(dir, "prices", "list"), []byte("prices"))
	s, home, key, file, root := limitedUser(t, `refuse_names = ['*.exe', '/in/*.tmp']
deny = ['symlink']
[[users.folders]]
path = '/archive'
read_only = true
[[users.folders]]
path = '/partners/shared'
root = '`+dir+`/shared'
quota_bytes = '1MB'
deny = []
[[users.folders]]
path = '/prices'
root = '`+dir+`/prices'
read_only = true
`)
	for _, name := range []string{"in", "archive"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(root, "archive", "old"), []byte("old"))
	sftp := func(commands string) (string, error) { return s.SFTP("alice", key, commands) }
	out, err := sftp("ls -1\nls -1 partners\nput small in\nput small partners/shared/s\n" +
		"get prices/list\nget archive/old\nmkdir in/d\nrename in/small in/d/s\nrename in/d d\n" +
		"ln -s s partners/shared/l\n")
	if err != nil || !strings.Contains(out, "archive\nin\npartners\nprices\n") ||
		!strings.Contains(out, "partners/shared\n") {
		t.Errorf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{"list": "prices", "old": "old"} {
		if got := string(readFile(t, filepath.Join(home, name))); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	for command, says := range map[string]string{
		"put small archive/new\n":           "read-only",
		"rm archive/old\n":                  "read-only",
		"put small prices/new\n":            "read-only",
		"put small x.EXE\n":                 "accepts no files of this name",
		"put small in/x.tmp\n":              "accepts no files of this name",
		"rename d/s d/s.exe\n":              "accepts no files of this name",
		"rename d/s partners/shared/t\n":    "different folders",
		"rename archive elsewhere\n":        "stays where it is",
		"rmdir partners/shared\n":           "stays where it is",
		"rmdir partners\n":                  "stays where it is",
		"put small partners/shared/again\n": "quota exceeded",
		"ln -s s l\n":                       "not allowed",
	} {
		out, err := sftp(command)
		if err == nil || !strings.Contains(out, says) &&
			!strings.Contains(strings.ToLower(out), "failure") &&
			!strings.Contains(strings.ToLower(out), "permission denied") {
			t.Errorf("%s%v\n%s", command, err, out)
		}
	}
	s.Wait("request denied", func(f map[string]any) bool {
		return f["path"] == "/x.EXE" && f["by"] == "policy" &&
			f["error"] == "the server accepts no files of this name"
	})
	if _, err := os.Lstat(filepath.Join(dir, "shared", "l")); err != nil {
		t.Error(err)
	}
	text := string(readFile(t, file))
	fails := func(text, says string) {
		t.Helper()
		writeFile(t, file, []byte(text))
		if got := run(t, home, "", "check", "--config", file); got.code != 1 ||
			!strings.Contains(got.stderr, file+says) {
			t.Errorf("%+v, want %s", got, says)
		}
	}
	none := dir + "/none"
	fails(strings.Replace(text, dir+"/prices", none, 1), ":20: root: "+none+": no such file")
	group := strings.NewReplacer("[[users]]", "[groups.g]", "[[users.", "[[groups.g.",
		"name = 'alice'\n", "", "authorized_keys = 'id.pub'\n", "").Replace(text) +
		"[[users]]\nname = 'alice'\ngroup = 'g'\nauthorized_keys = 'id.pub'\n"
	fails(strings.Replace(group, dir+"/prices", none, 1), ":18: root: "+none+": no such file")
	writeFile(t, file, []byte(group))
	if got := run(t, home, "", "check", "--config", file); got.code != 0 {
		t.Errorf("%+v", got)
	}
}
