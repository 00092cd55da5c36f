// Package clients runs other programs against the server: each goes through the same steps as far
// as it can.
package clients_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/server/sshd"
)

// site is a server with a directory that it serves, and another for the clients' own files.
type site struct {
	t             *testing.T
	served, local string
	port          string
	key           string   // file
	hostKey       string   // fingerprint
	env           []string // added to the programs' environment
	driver        *driver  // of a client library
	events        chan server.Event
}

func require(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		testenv.Program(t, program)
	}
}

func newSite(t *testing.T) *site { return newSiteAt(t, osfs.New) }

func newSiteAt(t *testing.T, serve func(dir string) (*osfs.FS, error)) *site {
	t.Helper()
	dir := t.TempDir()
	fs, err := serve(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() }) // after the server
	s := newSiteOf(t, fs)
	s.served = dir
	return s
}

// newSiteOf is newSite with another backend.
func newSiteOf(t *testing.T, fs server.FS) *site {
	t.Helper()
	require(t, "ssh-keygen")
	s := &site{t: t, local: t.TempDir(), events: make(chan server.Event, 100)}
	s.key = filepath.Join(t.TempDir(), "key")
	s.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.key)
	keys, err := sshd.ReadAuthorizedKeys(s.key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	directory, err := sshd.NewDirectory(sshd.Accounts{Users: []sshd.User{{Name: "u", FS: fs,
		Keys: keys}}})
	if err != nil {
		t.Fatal(err)
	}
	tell := func(e server.Event) {
		select {
		case s.events <- e:
		default: // nobody waits for any
		}
	}
	daemon, err := sshd.New(sshd.Config{PublicKey: directory.PublicKey, Events: tell})
	if err != nil {
		t.Fatal(err)
	}
	s.hostKey = ssh.FingerprintSHA256(daemon.HostKeys()[0])
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, s.port, _ = net.SplitHostPort(l.Addr().String())
	done := make(chan error)
	go func() { done <- daemon.Serve(l) }()
	t.Cleanup(func() {
		daemon.Close()
		if err := <-done; !errors.Is(err, sshd.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

// await waits for an event about a file.
func (s *site) await(kind server.EventKind, path string) server.Event {
	s.t.Helper()
	for {
		select {
		case e := <-s.events:
			if e.Kind == kind && e.Path == path {
				return e
			}
		case <-time.After(time.Minute):
			s.t.Fatalf("no event %q of %s", kind, path)
		}
	}
}

// base returns the site itself, of sites that have more.
func (s *site) base() *site { return s }

// path returns the name of one of the clients' own files.
func (s *site) path(name string) string { return filepath.Join(s.local, name) }

// run runs a program with its own home directory and returns its output; it must succeed.
func (s *site) run(program string, args ...string) string { return s.feed("", program, args...) }

func (s *site) feed(stdin, program string, args ...string) string {
	s.t.Helper()
	cmd := s.command(program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %q: %v\n%.2000s", program, args, err, out)
	}
	return string(out)
}

// command returns a command that has not been started, with its own home directory.
func (s *site) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.local
	cmd.Env = append(append(os.Environ(), "HOME="+s.local, "SSH_AUTH_SOCK="), s.env...)
	return cmd
}

// sshOptions are OpenSSH's options for connecting to an unknown server.
func (s *site) sshOptions() []string {
	return []string{"-F", "none", "-i", s.key, "-o", "StrictHostKeyChecking=no", "-o",
		"UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"}
}

// client is a program, with what it can do and why it cannot do the rest. Paths on the server are
// relative to its top, local ones absolute.
type client struct {
	programs                           []string
	prepare                            func(s *site)
	put, get                           func(s *site, from, to string)
	resumePut, resumeGet               func(s *site, from, to string)
	putTree, getTree                   func(s *site, from, to string)
	list                               func(s *site, dir string) string
	rename, symlink, link, chmod, copy func(s *site, a, b string)

	cannot map[string]string // reasons, by the step's name
}

// steps returns the steps, each with whether the client does it.
func (c *client) steps() map[string]bool {
	return map[string]bool{
		"put": c.put != nil, "get": c.get != nil, "resume put": c.resumePut != nil,
		"resume get": c.resumeGet != nil,
		"put tree":   c.putTree != nil, "get tree": c.getTree != nil, "list": c.list != nil,
		"rename":  c.rename != nil,
		"symlink": c.symlink != nil, "link": c.link != nil, "chmod": c.chmod != nil,
		"copy": c.copy != nil,
	}
}

// TestEveryStepIsDoneOrExplained: no client leaves out a step without a reason.
func TestEveryStepIsDoneOrExplained(t *testing.T) {
	for name, c := range clients {
		steps := c.steps()
		for step, done := range steps {
			if reason := c.cannot[step]; done == (reason != "") {
				t.Errorf("%s, %s: done is %v, and the reason why not is %q", name, step, done,
					reason)
			}
		}
		for step := range c.cannot {
			if _, ok := steps[step]; !ok {
				t.Errorf("%s: there is no step %q", name, step)
			}
		}
	}
}

// withClients runs a test with each of some programs, on sites of their own.
func withClients[S interface{ base() *site }](t *testing.T, clients map[string]*client,
	newSite func(*testing.T) S, test func(t *testing.T, c *client, s S), but ...string) {
	for name, c := range clients {
		if slices.Contains(but, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require(t, c.programs...)
			s := newSite(t)
			if c.prepare != nil {
				c.prepare(s.base())
			}
			test(t, c, s)
		})
	}
}

func TestClients(t *testing.T) {
	withClients(t, clients, newSite, func(_ *testing.T, c *client, s *site) { c.round(s) })
}

// sizes are around packet boundaries: empty, small, and more than one packet of any size.
var sizes = []int{0, 1, 32768, 261120, 2<<20 + 12345}

func (c *client) round(s *site) {
	for _, size := range sizes {
		name := fmt.Sprintf("file %d", size)
		data := s.random(filepath.Join(s.local, name), size)
		c.put(s, filepath.Join(s.local, name), name)
		s.expect(filepath.Join(s.served, name), data)
		c.get(s, name, filepath.Join(s.local, "back"))
		s.expect(filepath.Join(s.local, "back"), data)
		os.Remove(filepath.Join(s.local, "back"))
	}
	c.resume(s)
	c.trees(s)
	c.names(s)
}

// resume makes the client continue a file of which half exists.
func (c *client) resume(s *site) {
	data := s.random(filepath.Join(s.local, "whole"), 1<<20+7)
	half := data[:len(data)/2]
	if c.resumePut != nil {
		s.write(filepath.Join(s.served, "half"), half)
		c.resumePut(s, filepath.Join(s.local, "whole"), "half")
		s.expect(filepath.Join(s.served, "half"), data)
	}
	if c.resumeGet != nil {
		s.write(filepath.Join(s.served, "whole"), data)
		s.write(filepath.Join(s.local, "half"), half)
		c.resumeGet(s, "whole", filepath.Join(s.local, "half"))
		s.expect(filepath.Join(s.local, "half"), data)
	}
}

func (c *client) trees(s *site) {
	if c.putTree == nil {
		return // which cannot tells of
	}
	tree := map[string][]byte{}
	for _, name := range []string{"a", "b c", "sub/d", "sub/deep/e"} {
		tree[name] = s.random(filepath.Join(s.local, "tree", name), 1000*len(name))
	}
	for i := range 300 {
		name := fmt.Sprintf("many/file-%03d", i)
		tree[name] = s.random(filepath.Join(s.local, "tree", name), i)
	}
	c.putTree(s, filepath.Join(s.local, "tree"), "tree")
	s.expectTree(filepath.Join(s.served, "tree"), tree)
	c.getTree(s, "tree", filepath.Join(s.local, "tree back"))
	s.expectTree(filepath.Join(s.local, "tree back"), tree)
}

// names tests everything about names and attributes.
func (c *client) names(s *site) {
	data := s.random(filepath.Join(s.served, "old"), 100)
	if c.list != nil {
		first := filepath.Join(s.served, "listed", "entry-000")
		s.write(first, nil)
		for i := 1; i < 500; i++ { // names of one file, which are made faster than files
			name := filepath.Join(s.served, "listed", fmt.Sprintf("entry-%03d", i))
			if err := os.Link(first, name); err != nil {
				s.t.Fatal(err)
			}
		}
		out := c.list(s, "listed")
		if n := strings.Count(out, "entry-"); n != 500 {
			s.t.Errorf("%d of 500 entries are listed", n)
		}
	}
	if c.chmod != nil {
		c.chmod(s, "604", "old")
		if info, err := os.Stat(filepath.Join(s.served, "old")); err != nil ||
			info.Mode().Perm() != 0o604 {
			s.t.Errorf("chmod: %v, %v", info.Mode(), err)
		}
	}
	if c.copy != nil {
		c.copy(s, "old", "copied")
		s.expect(filepath.Join(s.served, "copied"), data)
	}
	if c.rename != nil {
		c.rename(s, "old", "new")
		s.expect(filepath.Join(s.served, "new"), data)
		if _, err := os.Lstat(filepath.Join(s.served, "old")); err == nil {
			s.t.Error("the old name is still there")
		}
	}
	name := "old"
	if c.rename != nil {
		name = "new"
	}
	if c.link != nil {
		c.link(s, name, "hard")
		one, err := os.Stat(filepath.Join(s.served, name))
		two, err2 := os.Stat(filepath.Join(s.served, "hard"))
		if err != nil || err2 != nil || !os.SameFile(one, two) {
			s.t.Errorf("two names of one file: %v, %v", err, err2)
		}
	}
	if c.symlink != nil {
		c.symlink(s, name, "link")
		if target, err := os.Readlink(filepath.Join(s.served, "link")); err != nil ||
			target != name {
			s.t.Errorf("the link leads to %q, %v", target, err)
		}
		s.expect(filepath.Join(s.served, "link"), data)
	}
}

func (s *site) random(name string, size int) []byte {
	s.t.Helper()
	data := make([]byte, size)
	rand.Read(data)
	s.write(name, data)
	return data
}

func (s *site) write(name string, data []byte) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) expect(name string, want []byte) {
	s.t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		s.t.Error(err)
	} else if !bytes.Equal(got, want) {
		s.t.Errorf("%s has %d bytes that are not the %d expected", name, len(got), len(want))
	}
}

// expectTree is expect for the files below a directory. It stops at the first difference.
func (s *site) expectTree(dir string, tree map[string][]byte) {
	s.t.Helper()
	for name, data := range tree {
		if s.expect(filepath.Join(dir, name), data); s.t.Failed() {
			return
		}
	}
}

// clients are the programs. Their functions show how each is told what to do.
var clients = map[string]*client{
	"OpenSSH sftp":   openSSHSFTP,
	"OpenSSH scp":    openSSHSCP("-s"),
	"OpenSSH scp -O": openSSHSCP("-O"),
	"lftp":           lftp,
	"rclone":         rclone,
	"curl":           curl,
	"psftp":          psftp,
	"pscp -sftp":     pscp("-sftp"),
	"pscp -scp":      pscp("-scp"),
	"paramiko":       python("paramiko"),
	"asyncssh":       python("asyncssh"),
	"sshfs":          sshfs,
	"ssh2":           ssh2,
}

// quote puts a name in double quotes, as most clients' command languages require.
func quote(name string) string { return `"` + name + `"` }

func words(format string, names ...string) string {
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = quote(name)
	}
	return fmt.Sprintf(format, args...)
}

// onlyCopies explains why a program that copies whole files does nothing else.
func onlyCopies(program string) map[string]string {
	reason := program + " copies whole files and has no commands"
	return map[string]string{"resume put": reason, "resume get": reason, "list": reason,
		"rename": reason, "symlink": reason,
		"link": reason, "copy": reason}
}

// copyWithMode creates a local copy of one of the server's files, with a mode in octal.
func (s *site) copyWithMode(name, mode string) {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.served, name))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(filepath.Join(s.local, name), data)
	bits, err := strconv.ParseUint(mode, 8, 32)
	if err == nil {
		err = os.Chmod(filepath.Join(s.local, name), os.FileMode(bits))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
