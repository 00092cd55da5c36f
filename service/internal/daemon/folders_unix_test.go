//go:build unix

package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
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

// TestFolderWithoutRoot: that the home of a user is still to be made does not hide that the root of
// a folder is missing, which is told at the start, and makes no home. The user gets in when it is
// there.
func TestFolderWithoutRoot(t *testing.T) {
	t.Parallel()
	home, key, file := groupConfig(t, "root = 'homes/%u'\nmake_root = true\n"+
		"[[groups.partners.folders]]\npath = '/shared'\nroot = 'shared'\n"+
		"[store]\nfile = 'store.db'\n")
	text := strings.Replace(string(readFile(t, file)), "proxy_protocol = ['127.0.0.1']\n", "", 1)
	writeFile(t, file, []byte(text))
	if err := os.Mkdir(filepath.Join(home, "homes"), 0o755); err != nil {
		t.Fatal(err)
	}
	do(t, home, file, "", "user add", "--group", "partners", "--key", key+".pub", "carol")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	missing := func(f map[string]any) bool {
		text, _ := f["error"].(string)
		return f["user"] == "carol" && strings.Contains(text, "folder /shared: cannot serve ") &&
			strings.Contains(text, filepath.Join(home, "shared"))
	}
	s.Wait("a user cannot log in", missing)
	if out, err := s.SFTP("carol", key, "pwd\n"); err == nil {
		t.Errorf("without the folder: %s", out)
	}
	s.Wait("login refused", missing)
	if _, err := os.Stat(filepath.Join(home, "homes", "carol")); err == nil {
		t.Error("a home was made for a user who could not log in")
	}
	if err := os.Mkdir(filepath.Join(home, "shared"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(home, "f"), []byte("text"))
	if out, err := s.SFTP("carol", key, "put f shared/f\n"); err != nil {
		t.Errorf("with the folder: %v\n%s", err, out)
	}
	servetest.Same(t, []byte("text"), filepath.Join(home, "shared", "f"))
}
