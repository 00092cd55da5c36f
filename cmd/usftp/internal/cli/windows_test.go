//go:build windows

package cli

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sys/windows"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/sshd"
)

// A desk is a person's Windows: %USERPROFILE%\.ssh has a configuration, a key and known_hosts, all
// for "testhost", whose files are in memory and can have any names.
type desk struct {
	t       *testing.T
	files   *memfs.FS
	home    string
	dir     string // where commands run
	private ed25519.PrivateKey
	env     []string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, files: memfs.New(0), home: t.TempDir(), dir: t.TempDir()}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d.private = private
	user, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	_, hostPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hostKey, err := ssh.NewSignerFromKey(hostPrivate)
	if err != nil {
		t.Fatal(err)
	}
	access := &sshd.Access{FS: d.files}
	server, err := sshd.New(sshd.Config{
		HostKeys: []ssh.Signer{hostKey},
		PublicKey: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*sshd.Access, error) {
			if !bytes.Equal(key.Marshal(), user.Marshal()) {
				return nil, errors.New("another key")
			}
			return access, nil
		},
		Password: func(_ ssh.ConnMetadata, password string) (*sshd.Access, error) {
			if password != answer {
				return nil, errors.New("another password")
			}
			return access, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, sshd.ErrServerClosed) {
			t.Error(err)
		}
	})
	d.write(filepath.Join(d.home, ".ssh", "id_work"), string(d.key()))
	d.write(filepath.Join(d.home, ".ssh", "config"), fmt.Sprintf(
		"Host testhost\r\n\tHostName 127.0.0.1\r\n\tPort %d\r\n\tUser me\r\n"+
			"\tIdentityFile ~/.ssh/id_work\r\n", listener.Addr().(*net.TCPAddr).Port))
	d.write(filepath.Join(d.home, ".ssh", "known_hosts"), knownhosts.Line(
		[]string{knownhosts.Normalize(listener.Addr().String())}, hostKey.PublicKey())+"\r\n")
	return d
}

func (d *desk) key() []byte {
	block, err := ssh.MarshalPrivateKey(d.private, "")
	if err != nil {
		d.t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func (d *desk) write(name, text string) {
	d.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, []byte(text), 0o644)); err != nil {
		d.t.Fatal(err)
	}
}

// command returns the command with a home of Windows' kind only.
func (d *desk) command(args ...string) *exec.Cmd {
	cmd := command(d.t, d.dir, args...)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool {
		return strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "XDG_")
	})
	cmd.Env = append(append(cmd.Env, "USERPROFILE="+d.home), d.env...)
	return cmd
}

// run runs the command, which must end with a code.
func (d *desk) run(code int, args ...string) outcome {
	d.t.Helper()
	o := finish(d.t, d.command(args...))
	if o.code != code {
		d.t.Fatalf("%q: %+v", args, o)
	}
	return o
}

// put makes a file on the host.
func (d *desk) put(name, text string) {
	d.t.Helper()
	cmd := d.command("cp", "--mkpath", "-", "testhost:"+name)
	cmd.Stdin = strings.NewReader(text)
	if o := finish(d.t, cmd); o.code != 0 {
		d.t.Fatalf("%+v", o)
	}
}

// on returns the text of a file on the host.
func (d *desk) on(name string) string {
	d.t.Helper()
	return d.run(ui.ExitOK, "cat", "testhost:"+name).stdout
}

// here returns the text of a local file.
func (d *desk) here(name string) string {
	d.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(d.dir, name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

func (d *desk) want(what, got, want string) {
	d.t.Helper()
	if got != want {
		d.t.Errorf("%s is %.100q, want %.100q", what, got, want)
	}
}

// says checks what a command said.
func (d *desk) says(o outcome, words ...string) {
	d.t.Helper()
	for _, w := range words {
		if !strings.Contains(o.stderr, w) {
			d.t.Errorf("%q lacks %q", o.stderr, w)
		}
	}
}

// TestCopyOnWindows: the key, the known host and the configuration are found in the profile. Paths
// with drives, of either slash, and shares are local; what Windows takes for one file has one name.
func TestCopyOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write(filepath.Join(d.dir, "a.txt"), "a text")
	full := filepath.Join(d.dir, "a.txt")
	drive, below := full[:2], full[2:]
	d.run(ui.ExitOK, "cp", "a.txt", "testhost:/1")
	d.run(ui.ExitOK, "cp", full, "testhost:/2")
	d.run(ui.ExitOK, "cp", filepath.ToSlash(full), "testhost:/3")
	d.run(ui.ExitOK, "cp", drive+"a.txt", "testhost:/4") // in the drive's current directory
	d.run(ui.ExitOK, "cp", `\\?\`+full, "testhost:/5")
	d.run(ui.ExitOK, "cp", below, "testhost:/6")
	for _, name := range []string{"/1", "/2", "/3", "/4", "/5", "/6"} {
		d.want(name, d.on(name), "a text")
	}
	d.run(ui.ExitOK, "cp", "testhost:/1", drive+"b.txt")
	d.run(ui.ExitOK, "cp", "testhost:/1", strings.ToLower(drive)+filepath.Join(filepath.Dir(below), "c.txt"))
	d.run(ui.ExitOK, "cp", "testhost:/1", `\\?\`+filepath.Join(d.dir, "d.txt"))
	for _, name := range []string{"b.txt", "c.txt", "d.txt"} {
		d.want(name, d.here(name), "a text")
	}
	// There is no such share; it is not taken for a host's path.
	o := d.run(ui.ExitFailed, "cp", "testhost:/1", `\\nobody.invalid\share\e.txt`)
	d.says(o, `\\nobody.invalid\share\e.txt`)

	d.write(filepath.Join(d.dir, "replaced"), "old")
	if err := os.Chmod(filepath.Join(d.dir, "replaced"), 0o444); err != nil {
		t.Fatal(err)
	}
	d.run(ui.ExitOK, "cp", "testhost:/1", "replaced")
	d.want("a read-only file", d.here("replaced"), "a text")
}

// TestSharesOnWindows: a share is local, however its path is written. Windows shares its disks with
// its administrators.
func TestSharesOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	drive, below := d.dir[:1], d.dir[2:]
	share := `\\localhost\` + drive + `$` + below
	if _, err := os.Stat(share); err != nil {
		testenv.Unavailable(t, err)
	}
	d.write(filepath.Join(d.dir, "tree", "file"), "text")
	d.write(filepath.Join(d.dir, "tree", "dir", "gone"), "text")
	for n, file := range []string{share + `\tree\file`, filepath.ToSlash(share) + "/tree/file",
		`\\?\UNC` + share[1:] + `\tree\file`} {
		there := fmt.Sprintf("/%d", n)
		d.run(ui.ExitOK, "cp", file, "testhost:"+there)
		d.want("the copy of "+file, d.on(there), "text")
		d.run(ui.ExitOK, "cp", "testhost:"+there, file+there[1:])
		d.want(file+there[1:], d.here("tree/file"+there[1:]), "text")
	}
	d.run(ui.ExitOK, "cp", "-r", share+`\tree`, "testhost:/")
	d.run(ui.ExitOK, "cp", "-r", "testhost:/tree", share+`\back`)
	d.want("the tree's copy", d.here(`back\dir\gone`), "text")

	if err := os.Remove(filepath.Join(d.dir, "tree", "dir", "gone")); err != nil {
		t.Fatal(err)
	}
	d.run(ui.ExitOK, "sync", "--delete", share+`\tree`, "testhost:/tree")
	d.run(ui.ExitFailed, "cat", "testhost:/tree/dir/gone")
	d.run(ui.ExitOK, "sync", "--delete", "testhost:/tree", share+`\back`)
	if _, err := os.Stat(filepath.Join(d.dir, "back", "dir", "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	o := d.run(ui.ExitFailed, "cp", "testhost:/0", share+`\NUL.txt`)
	d.says(o, "NUL.txt")
}

// TestPatternsOnWindows: shells there leave patterns to programs. The shell verb quotes with a
// backslash, which is no separator within a pattern.
func TestPatternsOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, name := range []string{"a-1.csv", "B-2.CSV", "c[1].csv", "other.txt", `dir\d.csv`} {
		d.write(filepath.Join(d.dir, name), name)
	}
	d.run(ui.ExitOK, "mkdir", "testhost:/1", "testhost:/2", "testhost:/3", "testhost:/4")
	d.run(ui.ExitOK, "cp", "*.csv", `DIR\*.csv`, "testhost:/1")
	d.run(ui.ExitOK, "cp", filepath.Join(d.dir, "?[1].csv"), d.dir[:2]+"a*", "testhost:/2")
	d.run(ui.ExitOK, "cp", "--hosts", "testhost", "*.csv", ":/3")
	o := d.run(ui.ExitFailed, "cp", "*.none", "testhost:/1")
	d.says(o, "*.none: no match")
	cmd := d.command("shell", "testhost")
	cmd.Stdin = strings.NewReader("put \"a-\"*.CSV /4\r\nput ?\\[1].csv /4\r\n")
	if o := finish(t, cmd); o.code != 0 {
		t.Errorf("%+v", o)
	}
	for dir, want := range map[string]string{
		"/1": "B-2.CSV\na-1.csv\nc[1].csv\nd.csv\n", "/2": "a-1.csv\nc[1].csv\n",
		"/3": "B-2.CSV\na-1.csv\nc[1].csv\n", "/4": "a-1.csv\nc[1].csv\n",
	} {
		d.want(dir, d.run(ui.ExitOK, "ls", "testhost:"+dir).stdout, want)
	}
}

// TestFilesOpenOnWindows: what another program has open without sharing it is left as it was, and
// what should have replaced it is beside it until the next copy.
func TestFilesOpenOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put("/new", "new")
	d.write(filepath.Join(d.dir, "held"), "old")
	held := openAlone(t, filepath.Join(d.dir, "held"))
	o := d.run(ui.ExitFailed, "cp", "testhost:/new", "held")
	d.says(o, "to held: ", "all of the data is in .held.usftp-")
	o = d.run(ui.ExitFailed, "cp", "held", "testhost:/up")
	d.says(o, "cannot copy held", "another program has it open")
	held()
	d.want("held", d.here("held"), "old")
	d.run(ui.ExitOK, "cp", "testhost:/new", "held")
	d.want("held", d.here("held"), "new")
	if names := namesIn(t, d.dir); !slices.Equal(names, []string{"held"}) {
		t.Errorf("there are %q", names)
	}
}

// TestTreesOnWindows: trees with paths of any length go both ways. What Windows cannot hold is
// named, and all else arrives. A sync with --delete deletes neither that nor anything else because
// of it.
func TestTreesOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	deep := "tree/" + strings.Repeat(strings.Repeat("d", 60)+"/", 6) + "file"
	d.write(filepath.Join(d.dir, filepath.FromSlash(deep)), "deep")
	d.write(filepath.Join(d.dir, "tree", "Ünï cödé 😀"), "text")
	d.run(ui.ExitOK, "cp", "-r", "tree", "testhost:/")
	d.want(deep, d.on("/"+deep), "deep")
	for _, verbatim := range []string{`\\?\`, `\\?\UNC\localhost\`} { // which Windows does not clean
		tree := verbatim + filepath.Join(d.dir, "tree")
		if drive := filepath.VolumeName(d.dir); verbatim != `\\?\` {
			tree = verbatim + strings.Replace(tree[len(verbatim):], drive, drive[:1]+"$", 1)
		}
		d.run(ui.ExitOK, "cp", "-r", tree, "testhost:/verbatim")
		d.want(deep, d.on("/verbatim"+strings.TrimPrefix(deep, "tree")), "deep")
		d.run(ui.ExitOK, "sync", "--delete", "testhost:/verbatim", tree)
		d.run(ui.ExitOK, "sync", "--delete", tree, "testhost:/verbatim")
		d.run(ui.ExitOK, "rm", "-r", "testhost:/verbatim")
	}
	d.run(ui.ExitOK, "cp", "-r", "testhost:/tree", "back")
	d.want(deep, d.here("back"+strings.TrimPrefix(deep, "tree")), "deep")
	d.want("the one in Unicode", d.here(`back\Ünï cödé 😀`), "text")

	names := []string{"CON", "COM1.txt", "file:stream", "file.", "file ", "a\\b", "FILE", "dir/NUL",
		"LONGNA~1.TXT"}
	for _, name := range append(names, "file", "dir/file") {
		d.put("/odd/"+name, name)
	}
	for _, copying := range []struct {
		code int
		args []string
	}{
		{ui.ExitFailed, []string{"cp", "-r", "testhost:/odd", "odd"}},
		{ui.ExitPartial, []string{"sync", "--delete", "testhost:/odd", "odd"}},
	} {
		o := d.run(copying.code, copying.args...)
		for _, name := range names {
			if name != "FILE" { // this one or the other
				d.says(o, filepath.Base(strings.TrimSpace(strings.ReplaceAll(name, `\`, `\\`))))
			}
		}
		d.want("dir/file", d.here(`odd\dir\file`), "dir/file")
		if text := d.here(`odd\file`); text != "file" && text != "FILE" {
			t.Errorf("file is %q", text)
		}
		if have := namesIn(t, filepath.Join(d.dir, "odd")); len(have) != 2 {
			t.Errorf("there are %q", have)
		}
	}
	d.run(ui.ExitOK, "sync", "--delete", "odd", "testhost:/odd")
	for _, name := range names {
		if name != "FILE" {
			d.want(name, d.on("/odd/"+name), name)
		}
	}
	list := d.run(ui.ExitOK, "ls", "testhost:/odd").stdout
	if !strings.Contains(list, "FILE") || !strings.Contains(list, "file\n") {
		t.Errorf("of the two that differ in case there are %q", list)
	}
}

// TestNamesOnWindowsThatAreNotUnicode: half of a surrogate pair, which a name may have there, goes
// to a host and back.
func TestNamesOnWindowsThatAreNotUnicode(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	half := "half \xed\xa0\xbd"
	if err := os.WriteFile(filepath.Join(d.dir, half), []byte("text"), 0o644); err != nil {
		testenv.Unavailable(t, "a name that is not Unicode: Wine, unlike Windows, has none")
	}
	d.run(ui.ExitOK, "cp", half, "testhost:/")
	d.want("on the host", d.on("/"+half), "text")
	d.run(ui.ExitOK, "cp", "testhost:/"+half, filepath.Join(d.home, "back"))
	d.want("the copy", d.here(filepath.Join(d.home, "back")), "text")
}

// TestLinksOnWindows: a tree's links are made, or each is an error, and all else arrives.
func TestLinksOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put("/tree/file", "text")
	d.run(ui.ExitOK, "ln", "-s", "file", "testhost:/tree/link")
	o := finish(t, d.command("cp", "-r", "testhost:/tree", "tree"))
	d.want("the file", d.here(`tree\file`), "text")
	target, err := os.Readlink(filepath.Join(d.dir, "tree", "link"))
	if o.code == 0 && (err != nil || target != "file") {
		t.Errorf("the link leads to %q, %v; %+v", target, err, o)
	}
	if o.code != 0 {
		d.says(o, "link")
	}
}

// TestJunctionsOnWindows: what is behind a junction is copied with -L only, and is nothing that a
// sync deletes.
func TestJunctionsOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	behind := filepath.Join(d.home, "behind")
	d.write(filepath.Join(behind, "file"), "text")
	d.write(filepath.Join(d.dir, "tree", "file"), "text")
	testenv.Junction(t, behind, filepath.Join(d.dir, "tree", "junction"))
	o := d.run(ui.ExitOK, "cp", "-r", "tree", "testhost:/without")
	d.says(o, "junction")
	d.run(ui.ExitFailed, "cat", "testhost:/without/junction/file")
	d.run(ui.ExitOK, "cp", "-r", "-L", "tree", "testhost:/with")
	d.want("the file behind it", d.on("/with/junction/file"), "text")
	d.run(ui.ExitOK, "sync", "--delete", "testhost:/without", "tree")
	if _, err := os.Lstat(filepath.Join(d.dir, "tree", "junction")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the junction: %v", err)
	}
	d.want("what was behind it", d.here(filepath.Join(behind, "file")), "text")
}

// TestSyncOnWindows: both ways, with --delete.
func TestSyncOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write(filepath.Join(d.dir, "src", "a"), "a")
	d.write(filepath.Join(d.dir, "src", "dir", "b"), "b")
	d.write(filepath.Join(d.dir, "src", "gone"), "gone")
	d.run(ui.ExitOK, "sync", "--delete", "src", "testhost:/dst")
	if err := os.Remove(filepath.Join(d.dir, "src", "gone")); err != nil {
		t.Fatal(err)
	}
	d.write(filepath.Join(d.dir, "src", "a"), "another a")
	d.run(ui.ExitOK, "sync", "--delete", "src", "testhost:/dst")
	d.want("a", d.on("/dst/a"), "another a")
	d.run(ui.ExitFailed, "cat", "testhost:/dst/gone")
	d.run(ui.ExitOK, "rm", "testhost:/dst/dir/b")
	if err := os.Chmod(filepath.Join(d.dir, "src", "dir", "b"), 0o444); err != nil {
		t.Fatal(err)
	}
	d.run(ui.ExitOK, "sync", "--delete", "testhost:/dst", "src")
	if _, err := os.Stat(filepath.Join(d.dir, "src", "dir", "b")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("b: %v", err)
	}
	// What is equal stays: times survive the way there and back.
	o := d.run(ui.ExitOK, "sync", "--delete", "--dry-run", "src", "testhost:/dst")
	d.want("a dry run", o.stdout, "")
}

// TestPermissionsOnWindows: Windows has only a read-only flag. What Go makes of it, permissions for
// everybody, is not given to a host's files, and no sync sets those of a host's files again and again.
func TestPermissionsOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	mode := func(name string) string {
		return d.run(ui.ExitOK, "ls", "-ld", "testhost:"+name).stdout[:10]
	}
	d.write(filepath.Join(d.dir, "src", "file"), "text")
	d.write(filepath.Join(d.dir, "src", "dir", "file"), "text")
	d.run(ui.ExitOK, "cp", "-r", "src", "testhost:/dst")
	d.run(ui.ExitOK, "chmod", "700", "testhost:/dst", "testhost:/dst/dir")
	d.run(ui.ExitOK, "chmod", "755", "testhost:/dst/file", "testhost:/dst/dir/file")
	for _, copying := range [][]string{
		{"sync", "-v"}, {"sync", "-v", "--checksum"}, {"cp", "-rpT"}, {"cp", "-rT"},
	} {
		o := d.run(ui.ExitOK, append(copying, "src", "testhost:/dst")...)
		for name, want := range map[string]string{"/dst": "drwx------", "/dst/file": "-rwxr-xr-x",
			"/dst/dir": "drwx------", "/dst/dir/file": "-rwxr-xr-x"} {
			d.want(fmt.Sprint(name, " after ", copying), mode(name), want)
		}
		if strings.Contains(o.stderr, "attributes") {
			t.Errorf("%v: %+v", copying, o)
		}
	}
	d.run(ui.ExitOK, "sync", "--chmod=D750,F640", "src", "testhost:/chosen")
	d.want("a directory with --chmod", mode("/chosen/dir"), "drwxr-x---")
	d.want("a file with --chmod", mode("/chosen/file"), "-rw-r-----")

	d.run(ui.ExitOK, "cp", "-O", "-rp", "src", "testhost:/old")
	d.want("a directory by scp's old protocol", mode("/old/dir"), "drwxr-xr-x")
	d.want("a file by scp's old protocol", mode("/old/file"), "-rw-r--r--")

	d.run(ui.ExitOK, "sync", "testhost:/dst", "down")
	o := d.run(ui.ExitOK, "sync", "-v", "testhost:/dst", "down")
	if strings.Contains(o.stderr, "attributes") {
		t.Errorf("a sync from the host sets what Windows does not have: %+v", o)
	}
	d.run(ui.ExitOK, "chmod", "444", "testhost:/dst/file")
	d.run(ui.ExitOK, "cp", "testhost:/dst/file", "ro")
	if is, err := os.Stat(filepath.Join(d.dir, "ro")); err != nil || is.Mode().Perm() != 0o444 {
		t.Errorf("the copy of a file that is read-only is %v, %v", is.Mode(), err)
	}
}

// TestShellOnWindows: a batch with paths of both kinds.
func TestShellOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write(filepath.Join(d.dir, "up"), "text")
	cmd := d.command("shell", "testhost")
	cmd.Stdin = strings.NewReader("mkdir d\r\ncd d\r\nput up\r\nget up down\r\nlcd \"" +
		strings.ReplaceAll(d.home, `\`, `\\`) + "\"\r\nget up\r\npwd\r\n")
	if o := finish(t, cmd); o.code != 0 || !strings.Contains(o.stdout, "/d") {
		t.Fatalf("%+v", o)
	}
	d.want("down", d.here("down"), "text")
	d.want("up", d.here(filepath.Join(d.home, "up")), "text")
}

// TestLoginsOnWindows: by SSH_ASKPASS, and by an agent on a pipe, such as Windows' own and Pageant.
func TestLoginsOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put("/file", "text")
	if err := os.Remove(filepath.Join(d.home, ".ssh", "id_work")); err != nil {
		t.Fatal(err)
	}
	d.run(ui.ExitNoHost, "cat", "testhost:/file")

	ask, err := exec.LookPath("answer")
	if err != nil {
		t.Fatal(err)
	}
	d.env = []string{"SSH_ASKPASS=" + ask, "SSH_ASKPASS_REQUIRE=force"}
	d.want("the file, by a password", d.on("/file"), "text")

	pipe := serveAgent(t, d.private)
	for _, name := range []string{pipe, filepath.ToSlash(pipe)} {
		d.env = []string{"SSH_AUTH_SOCK=" + name}
		d.want("the file, by SSH_AUTH_SOCK", d.on("/file"), "text")
	}
	d.env = nil
	// As Pageant writes it for people to include.
	d.write(filepath.Join(d.home, ".ssh", "pageant.conf"), "IdentityAgent "+pipe+"\n")
	config := filepath.Join(d.home, ".ssh", "config")
	d.write(config, "Include pageant.conf\n"+d.here(config))
	d.want("the file, by IdentityAgent", d.on("/file"), "text")

	// One that never answers is left when the time for the login is over.
	name, err := windows.UTF16PtrFromString(pipe + "-hangs")
	if err != nil {
		t.Fatal(err)
	}
	hangs, err := windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX,
		windows.PIPE_TYPE_BYTE|windows.PIPE_WAIT, 1, 4096, 4096, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(hangs)
	o := d.run(ui.ExitNoHost, "cat", "-o", "IdentityAgent="+pipe+"-hangs", "-o", "ConnectTimeout=2",
		"testhost:/file")
	d.says(o, "testhost")
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestKilledOnWindows: what a killed copy leaves is what --resume continues from.
func TestKilledOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	data := string(randomData(24 << 20))
	d.write(filepath.Join(d.dir, "big"), data)
	for _, way := range [][2]string{{"big", "testhost:/target"}, {"testhost:/target", "target"}} {
		cmd := d.command("cp", "--json", "-l", "100000", way[0], way[1])
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		events := bufio.NewScanner(stdout)
		journal := filepath.Join(d.home, ".local", "state", "usftp", "journal", "*.json")
		for marked := false; !marked && events.Scan(); {
			names, _ := filepath.Glob(journal)
			for _, name := range names {
				text, err := os.ReadFile(name)
				var mark struct{ Bytes int64 }
				marked = err == nil && json.Unmarshal(text, &mark) == nil && mark.Bytes >= 8<<20
			}
		}
		cmd.Process.Kill()
		io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err == nil {
			t.Fatal("it was not killed")
		}
		o := d.run(ui.ExitOK, "cp", "--json", "--resume", way[0], way[1])
		if n := resumed(o.stdout); n < 7<<20 {
			t.Errorf("%q: %d bytes were reused", way, n)
		}
	}
	if d.here("target") != data {
		t.Error("the target differs")
	}
	if names := namesIn(t, d.dir); !slices.Equal(names, []string{"big", "target"}) {
		t.Errorf("there are %q", names)
	}
}

// TestServeOnWindows: usftp serves a directory to itself. What leads out of it, or to a device, is
// refused whatever the client calls it.
func TestServeOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	served := filepath.Join(d.dir, "served")
	d.write(filepath.Join(served, "file"), "text")
	d.write(filepath.Join(d.dir, "secret"), "secret")
	public, err := ssh.NewPublicKey(d.private.Public())
	if err != nil {
		t.Fatal(err)
	}
	d.write(filepath.Join(d.home, ".ssh", "authorized_keys"), string(ssh.MarshalAuthorizedKey(public)))
	serve := d.command("serve", "--listen", "127.0.0.1:0", "--user", "me", served)
	stdout, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		serve.Process.Kill()
		serve.Wait()
	})
	port := ""
	for lines := bufio.NewScanner(stdout); port == "" && lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 4 && words[0] == "connect" {
			port = words[slices.Index(words, "-P")+1]
		}
	}
	d.write(filepath.Join(d.home, ".ssh", "config"), "Host testhost\n\tHostName 127.0.0.1\n\tUser me\n"+
		"\tIdentityFile ~/.ssh/id_work\n\tStrictHostKeyChecking accept-new\n\tPort "+port+"\n")
	d.want("the file", d.on("/file"), "text")
	d.run(ui.ExitOK, "cp", "testhost:/file", "copy")
	d.run(ui.ExitOK, "cp", "copy", "testhost:/dir")
	if err := os.Chmod(filepath.Join(served, "dir"), 0o444); err != nil {
		t.Fatal(err)
	}
	d.run(ui.ExitOK, "cp", "copy", "testhost:/dir")
	d.want("its copy", d.here(`served\dir`), "text")
	for _, name := range []string{`/..\secret`, "/../secret", "/" + filepath.ToSlash(d.dir) + "/secret",
		"/file:stream", "/file::$DATA", "/file.", "/NUL", "/CON.txt", "/FILE~1"} {
		d.run(ui.ExitFailed, "cp", "testhost:"+name, "stolen")
		if name != "/../secret" { // which is /secret
			d.run(ui.ExitFailed, "cp", "copy", "testhost:"+name)
		}
	}
	if names := namesIn(t, served); !slices.Equal(names, []string{"dir", "file"}) {
		t.Errorf("it serves %q", names)
	}
	d.want("the secret", d.here("secret"), "secret")
	d.want("the file", d.here(`served\file`), "text")
}

// openAlone opens a file that nobody else may open until done is called.
func openAlone(t *testing.T, name string) (done func()) {
	t.Helper()
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := windows.CreateFile(text, windows.GENERIC_READ, 0, nil, windows.OPEN_EXISTING, 0,
		0)
	if err != nil {
		t.Fatal(err)
	}
	return func() { windows.CloseHandle(handle) }
}

// serveAgent serves an agent with one key on a pipe, and returns the pipe's name.
func serveAgent(t *testing.T, key ed25519.PrivateKey) string {
	t.Helper()
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	name := `\\.\pipe\pageant.me.` + rand.Text()
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	listen := func() windows.Handle {
		pipe, err := windows.CreateNamedPipe(text, windows.PIPE_ACCESS_DUPLEX,
			windows.PIPE_TYPE_BYTE|windows.PIPE_WAIT, windows.PIPE_UNLIMITED_INSTANCES, 4096, 4096,
			0, nil)
		if err != nil {
			t.Error(err)
		}
		return pipe
	}
	var ends atomic.Bool
	done := make(chan struct{})
	next := listen()
	go func() {
		defer close(done)
		for {
			pipe := next
			err := windows.ConnectNamedPipe(pipe, nil)
			if ends.Load() || err != nil && err != windows.ERROR_PIPE_CONNECTED {
				windows.CloseHandle(pipe)
				return
			}
			next = listen() // before this one is busy, so that there always is one
			client := os.NewFile(uintptr(pipe), name)
			agent.ServeAgent(ring, client)
			client.Close()
		}
	}()
	t.Cleanup(func() {
		ends.Store(true)
		if f, err := os.OpenFile(name, os.O_RDWR, 0); err == nil {
			f.Close()
		}
		<-done
	})
	return name
}

// TestHostsOnWindows: a port beside a host's name makes no stream of a file, and is in no uploads'
// way.
func TestHostsOnWindows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write(filepath.Join(d.dir, "file"), "text")
	config := d.here(filepath.Join(d.home, ".ssh", "config"))
	_, port, _ := strings.Cut(config, "Port ")
	port = strings.Fields(port)[0]
	d.run(ui.ExitOK, "cp", "--hosts", "testhost:"+port, "file", ":/file")
	d.want("the file", d.on("/file"), "text")
	o := d.run(ui.ExitFailed, "cp", "--hosts", "testhost:"+port, ":/file", "down")
	d.says(o, "testhost:"+port, "ssh_config")
	if names := namesIn(t, d.dir); !slices.Equal(names, []string{"file"}) {
		t.Errorf("there are %q", names)
	}
	d.run(ui.ExitOK, "cp", "--hosts", "testhost", ":/file", "down")
	d.want("the copy", d.here(`down\testhost\file`), "text")
}
