package cli

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/wire"
)

// serveHostileHome is an SFTP server on the standard streams that returns its first argument as
// every home directory.
func serveHostileHome() {
	home := os.Args[1]
	s := sftptest.NewScripted(
		sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Extension != wire.ExtExpandPath {
				return nil
			}
			reply := wire.Names{Names: []wire.Name{{Filename: home, LongName: home}}}.Append(nil,
				r.ID)
			return []sftptest.Action{sftptest.ReplyBytes(string(reply))}
		}})
	for _, name := range []string{"/srv/.bashrc", "/srv/.ssh/authorized_keys", "/srv/a/f1",
		"/srv/[x]/f1", "/srv/[x]/f2", "/srv/x/f1", "/srv/x/evil"} {
		s.Files.WriteFile(name, []byte("from "+name))
	}
	s.Serve(struct {
		io.ReadCloser
		io.Writer
	}{os.Stdin, os.Stdout})
}

// The home directory that the server sends for ~bob neither acts as a pattern nor names the copy.
func TestHomeOfAHostileServer(t *testing.T) {
	t.Parallel()
	server, err := exec.LookPath("hostile-server")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, home string
		args       []string
		code       int
		want       map[string]string // files below the directory of the copy
	}{
		{"a file for a home", "/srv/.bashrc", []string{"testhost:~bob", "."}, ui.ExitFailed, nil},
		{"a file for a home, and a slash", "/srv/.bashrc", []string{"testhost:~bob/", "."},
			ui.ExitFailed, nil},
		{"a tree", "/srv/.ssh", []string{"-r", "testhost:~bob", "."}, ui.ExitOK,
			map[string]string{"bob/authorized_keys": "from /srv/.ssh/authorized_keys"}},
		{"a tree, and a slash", "/srv/.ssh", []string{"-r", "testhost:~bob/", "."}, ui.ExitOK,
			map[string]string{"bob/authorized_keys": "from /srv/.ssh/authorized_keys"}},
		{"a tree to a new directory", "/srv/.ssh", []string{"-r", "testhost:~bob", "new"},
			ui.ExitOK,
			map[string]string{"new/authorized_keys": "from /srv/.ssh/authorized_keys"}},
		{"a pattern for a home", "/srv/.*", []string{"testhost:~bob", "."}, ui.ExitFailed, nil},
		{"a pattern above a file", "/srv/?", []string{"testhost:~bob/f1", "."}, ui.ExitFailed, nil},
		{"a pattern above a pattern", "/srv/[x]", []string{"testhost:~bob/f*", "."}, ui.ExitOK,
			map[string]string{"f1": "from /srv/[x]/f1", "f2": "from /srv/[x]/f2"}},
		{"a file below", "/srv/a", []string{"testhost:~bob/f1", "."}, ui.ExitOK,
			map[string]string{"f1": "from /srv/a/f1"}},
		{"two trees", "/srv/.ssh", []string{"-r", "testhost:~bob", "testhost:~eve", "."}, ui.ExitOK,
			map[string]string{"bob/authorized_keys": "from /srv/.ssh/authorized_keys",
				"eve/authorized_keys": "from /srv/.ssh/authorized_keys"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sshd := opensshd.Start(t, opensshd.Options{Config: []string{
				fmt.Sprintf("ForceCommand %s '%s'", server, c.home)}})
			dir := t.TempDir()
			o := run(t, dir, append([]string{"cp", "-F", sshd.ConfigFile}, c.args...)...)
			if o.code != c.code {
				t.Errorf("exit code %d, want %d:\n%s", o.code, c.code, o.stderr)
			}
			var got []string
			err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry,
				err error) error {
				if !d.IsDir() {
					got = append(got, name)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, slices.Sorted(maps.Keys(c.want))) {
				t.Errorf("there are %q\n%s", got, o.stderr)
			}
			for name, want := range c.want {
				if got := string(readFile(t, filepath.Join(dir, name))); got != want {
					t.Errorf("%s holds %q, want %q", name, got, want)
				}
			}
		})
	}
}
