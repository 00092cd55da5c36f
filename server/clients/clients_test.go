// Package clients has other people's programs use the server: each does the same round of what it can do.
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
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/server/sshd"
)

// site is a server with a directory that it serves, and one that clients have for themselves.
type site struct {
	t             *testing.T
	served, local string
	port          string
	key           string // file
	hostKey       string // fingerprint
}

// missing skips a test for want of something, or fails where USFTP_REQUIRE=1 says that the machine is to have it.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("USFTP_REQUIRE") == "1" {
		t.Fatalf("%s is not installed", what)
	}
	t.Skipf("%s is not installed", what)
}

func require(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, program)
		}
	}
}

func newSite(t *testing.T) *site {
	t.Helper()
	require(t, "ssh-keygen")
	s := &site{t: t, served: t.TempDir(), local: t.TempDir()}
	s.key = filepath.Join(t.TempDir(), "key")
	s.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.key)
	keys, err := sshd.ReadAuthorizedKeys(s.key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	fs, err := osfs.New(s.served)
	if err != nil {
		t.Fatal(err)
	}
	directory, err := sshd.NewDirectory(sshd.Accounts{Users: []sshd.User{{Name: "u", FS: fs, Keys: keys}}})
	if err != nil {
		t.Fatal(err)
	}
	server, err := sshd.New(sshd.Config{PublicKey: directory.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	s.hostKey = ssh.FingerprintSHA256(server.HostKeys()[0])
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, s.port, _ = net.SplitHostPort(l.Addr().String())
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, sshd.ErrServerClosed) {
			t.Error(err)
		}
		fs.Close()
	})
	return s
}

// run runs a program with a home of its own and returns what it says; it must end well.
func (s *site) run(program string, args ...string) string { return s.feed("", program, args...) }

func (s *site) feed(stdin, program string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = s.local
	cmd.Env = append(os.Environ(), "HOME="+s.local, "SSH_AUTH_SOCK=")
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %q: %v\n%.2000s", program, args, err, out)
	}
	return string(out)
}

// sshOptions are OpenSSH's for a server that it has never seen.
func (s *site) sshOptions() []string {
	return []string{"-F", "none", "-i", s.key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"}
}

// client is a program with what it can do; what it cannot is nil. Paths on the server are relative to its top, local ones
// absolute.
type client struct {
	programs                     []string
	prepare                      func(s *site)
	put, get                     func(s *site, from, to string)
	resumePut, resumeGet         func(s *site, from, to string)
	putTree, getTree             func(s *site, from, to string)
	list                         func(s *site, dir string) string
	rename, symlink, chmod, copy func(s *site, a, b string)
}

func TestClients(t *testing.T) {
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require(t, c.programs...)
			s := newSite(t)
			if c.prepare != nil {
				c.prepare(s)
			}
			c.round(s)
		})
	}
}

// sizes are of files at the edges of packets: nothing, little, and more than one packet however large.
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

// resume has the client carry on where half of a file is there.
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
		return
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

// names does what has to do with names and attributes.
func (c *client) names(s *site) {
	data := s.random(filepath.Join(s.served, "old"), 100)
	if c.list != nil {
		for i := range 500 {
			s.write(filepath.Join(s.served, "listed", fmt.Sprintf("entry-%03d", i)), nil)
		}
		out := c.list(s, "listed")
		if n := strings.Count(out, "entry-"); n != 500 {
			s.t.Errorf("%d of 500 entries are listed", n)
		}
	}
	if c.chmod != nil {
		c.chmod(s, "604", "old")
		if info, err := os.Stat(filepath.Join(s.served, "old")); err != nil || info.Mode().Perm() != 0o604 {
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
	if c.symlink != nil {
		c.symlink(s, "new", "link")
		if target, err := os.Readlink(filepath.Join(s.served, "link")); err != nil || target != "new" {
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

// expectTree is expect for the files below a directory; the first that is wrong says enough.
func (s *site) expectTree(dir string, tree map[string][]byte) {
	s.t.Helper()
	for name, data := range tree {
		if s.expect(filepath.Join(dir, name), data); s.t.Failed() {
			return
		}
	}
}

// clients are the programs. See their functions for how each is told what to do.
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
}

// quote puts a name in double quotes, as most of the clients' own languages have them.
func quote(name string) string { return `"` + name + `"` }

func words(format string, names ...string) string {
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = quote(name)
	}
	return fmt.Sprintf(format, args...)
}

var openSSHSFTP = func() *client {
	batch := func(s *site, command string) string {
		return s.feed(command+"\n", "sftp", append(s.sshOptions(), "-P", s.port, "-b", "-", "u@127.0.0.1")...)
	}
	do := func(format string) func(*site, string, string) {
		return func(s *site, a, b string) { batch(s, words(format, a, b)) }
	}
	return &client{
		programs: []string{"sftp"},
		put:      do("put %s %s"), get: do("get %s %s"),
		resumePut: do("reput %s %s"), resumeGet: do("reget %s %s"),
		putTree: do("put -r %s %s"), getTree: do("get -r %s %s"),
		list:   func(s *site, dir string) string { return batch(s, "ls -1 "+dir) },
		rename: do("rename %s %s"), symlink: do("symlink %s %s"), chmod: do("chmod %s %s"), copy: do("copy %s %s"),
	}
}()

func openSSHSCP(protocol string) *client {
	scp := func(s *site, args ...string) {
		s.t.Helper()
		s.run("scp", slices.Concat(s.sshOptions(), []string{protocol, "-P", s.port}, args)...)
	}
	remote := func(name string) string {
		if protocol == "-O" {
			name = strings.ReplaceAll(name, " ", `\ `) // for the shell that is not there
		}
		return "u@127.0.0.1:" + name
	}
	return &client{
		programs: []string{"scp"},
		put:      func(s *site, from, to string) { scp(s, from, remote(to)) },
		get:      func(s *site, from, to string) { scp(s, remote(from), to) },
		putTree:  func(s *site, from, to string) { scp(s, "-r", from, remote(to)) },
		getTree:  func(s *site, from, to string) { scp(s, "-r", remote(from), to) },
	}
}

var lftp = func() *client {
	do := func(s *site, command string) string {
		connect := "ssh -a -x " + strings.Join(s.sshOptions(), " ")
		return s.run("lftp", "--norc", "-c", fmt.Sprintf("set sftp:auto-confirm yes; set cmd:fail-exit yes; set net:max-retries 1; "+
			"set sftp:connect-program %s; open -u u, sftp://127.0.0.1:%s && %s", quote(connect), s.port, command))
	}
	with := func(format string) func(*site, string, string) {
		return func(s *site, a, b string) { do(s, words(format, a, b)) }
	}
	return &client{
		programs: []string{"lftp", "ssh"},
		put:      with("put %s -o %s"), get: with("get %s -o %s"),
		resumePut: with("put -c %s -o %s"), resumeGet: with("get -c %s -o %s"),
		putTree: with("mirror -R %s %s"), getTree: with("mirror %s %s"),
		list:   func(s *site, dir string) string { return do(s, "cls -1 "+dir) },
		rename: with("mv %s %s"), symlink: with("ln -s %s %s"), chmod: with("chmod %s %s"),
	}
}()

var rclone = func() *client {
	do := func(s *site, args ...string) string {
		return s.run("rclone", append([]string{"--config", "/dev/null", "--retries", "1"}, args...)...)
	}
	remote := func(s *site, name string) string {
		return fmt.Sprintf(":sftp,host=127.0.0.1,port=%s,user=u,key_file=%q,shell_type=none:%s", s.port, s.key, name)
	}
	return &client{
		programs: []string{"rclone"},
		put:      func(s *site, from, to string) { do(s, "copyto", from, remote(s, to)) },
		get:      func(s *site, from, to string) { do(s, "copyto", remote(s, from), to) },
		putTree:  func(s *site, from, to string) { do(s, "copy", from, remote(s, to)) },
		getTree:  func(s *site, from, to string) { do(s, "copy", remote(s, from), to) },
		list:     func(s *site, dir string) string { return do(s, "lsf", remote(s, dir)) },
		rename:   func(s *site, a, b string) { do(s, "moveto", remote(s, a), remote(s, b)) },
	}
}()

var curl = func() *client {
	do := func(s *site, name string, args ...string) string {
		url := fmt.Sprintf("sftp://u@127.0.0.1:%s/%s", s.port, strings.ReplaceAll(name, " ", "%20"))
		return s.run("curl", slices.Concat([]string{"-sS", "-k", "--key", s.key, "--pubkey", s.key + ".pub"}, args, []string{url})...)
	}
	command := func(word string) func(*site, string, string) {
		return func(s *site, a, b string) { do(s, "", "-l", "-o", "/dev/null", "-Q", words(word+" %s %s", a, b)) }
	}
	return &client{
		programs: []string{"curl"},
		prepare: func(s *site) {
			if !strings.Contains(s.run("curl", "--version"), "sftp") {
				missing(s.t, "a curl that speaks SFTP")
			}
		},
		put:       func(s *site, from, to string) { do(s, to, "-T", from) },
		get:       func(s *site, from, to string) { do(s, from, "-o", to) },
		resumePut: func(s *site, from, to string) { do(s, to, "-C", "-", "-T", from) },
		resumeGet: func(s *site, from, to string) { do(s, from, "-C", "-", "-o", to) },
		list:      func(s *site, dir string) string { return do(s, dir+"/", "-l") },
		rename:    command("rename"), symlink: command("symlink"),
		chmod: func(s *site, mode, name string) { do(s, "", "-l", "-o", "/dev/null", "-Q", "chmod "+mode+" "+name) },
	}
}()

// puttyKey makes a key that PuTTY's programs read.
func puttyKey(s *site) { s.run("puttygen", s.key, "-o", s.key+".ppk") }

var psftp = func() *client {
	batch := func(s *site, command string) string {
		file := filepath.Join(s.local, ".batch")
		s.write(file, []byte(command+"\nquit\n"))
		return s.run("psftp", "-batch", "-P", s.port, "-i", s.key+".ppk", "-hostkey", s.hostKey, "-b", file, "u@127.0.0.1")
	}
	do := func(format string) func(*site, string, string) {
		return func(s *site, a, b string) { batch(s, words(format, a, b)) }
	}
	return &client{
		programs: []string{"psftp", "puttygen"},
		prepare:  puttyKey,
		put:      do("put %s %s"), get: do("get %s %s"),
		resumePut: do("reput %s %s"), resumeGet: do("reget %s %s"),
		putTree: do("put -r %s %s"), getTree: do("get -r %s %s"),
		list:   func(s *site, dir string) string { return batch(s, "ls "+dir) },
		rename: do("mv %s %s"), chmod: do("chmod %s %s"),
	}
}()

func pscp(protocol string) *client {
	do := func(s *site, args ...string) {
		s.t.Helper()
		s.run("pscp", append([]string{"-q", "-batch", protocol, "-P", s.port, "-i", s.key + ".ppk", "-hostkey", s.hostKey}, args...)...)
	}
	remote := func(name string) string {
		if protocol == "-scp" {
			name = strings.ReplaceAll(name, " ", `\ `)
		}
		return "u@127.0.0.1:" + name
	}
	c := &client{
		programs: []string{"pscp", "puttygen"},
		prepare:  puttyKey,
		put:      func(s *site, from, to string) { do(s, from, remote(to)) },
		get:      func(s *site, from, to string) { do(s, remote(from), to) },
	}
	// Trees go into a directory that is there.
	c.putTree = func(s *site, from, _ string) { do(s, "-r", from, remote(".")) }
	c.getTree = func(s *site, from, to string) {
		into := filepath.Join(s.local, "into")
		if err := os.Mkdir(into, 0o755); err != nil {
			s.t.Fatal(err)
		}
		do(s, "-r", remote(from), into)
		if err := os.Rename(filepath.Join(into, from), to); err != nil {
			s.t.Error(err)
		}
	}
	return c
}

// python is a client of a library, driven by a program in testdata. USFTP_PYTHON names an interpreter that has the library.
func python(library string) *client {
	interpreter := os.Getenv("USFTP_PYTHON")
	if interpreter == "" {
		interpreter = "python3"
	}
	do := func(operation string) func(*site, string, string) {
		return func(s *site, a, b string) {
			s.t.Helper()
			s.run(interpreter, script(library), s.port, s.key, operation, a, b)
		}
	}
	c := &client{
		programs: []string{interpreter},
		prepare: func(s *site) {
			if exec.Command(interpreter, "-c", "import "+library).Run() != nil {
				missing(s.t, library)
			}
		},
		put: do("put"), get: do("get"), putTree: do("put-tree"), getTree: do("get-tree"),
		list: func(s *site, dir string) string {
			return s.run(interpreter, script(library), s.port, s.key, "list", dir)
		},
		rename: do("rename"), symlink: do("symlink"), chmod: do("chmod"),
	}
	if library == "paramiko" {
		c.resumePut = do("resume-put")
	} else {
		c.copy = do("copy")
	}
	return c
}

func script(library string) string {
	name, err := filepath.Abs("testdata/" + library + "_client.py")
	if err != nil {
		panic(err) // there is no working directory
	}
	return name
}

// sshfs mounts the server; what it can do the system's own calls do.
var sshfs = func() *client {
	mounted := func(s *site, name string) string { return filepath.Join(s.local, "mnt", name) }
	copyFile := func(s *site, from, to string) {
		s.t.Helper()
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o644)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
	check := func(s *site, err error) {
		s.t.Helper()
		if err != nil {
			s.t.Error(err)
		}
	}
	return &client{
		programs: []string{"sshfs", "fusermount3"},
		prepare: func(s *site) {
			mnt := mounted(s, "")
			if err := os.MkdirAll(mnt, 0o755); err != nil {
				s.t.Fatal(err)
			}
			args := append(s.sshOptions()[2:], "-p", s.port, "u@127.0.0.1:/", mnt) // it knows no -F none, and no -i
			args = append([]string{"-o", "IdentityFile=" + s.key}, args[2:]...)
			if out, err := exec.Command("sshfs", args...).CombinedOutput(); err != nil {
				s.t.Skipf("nothing can be mounted here: %v\n%s", err, out)
			}
			s.t.Cleanup(func() { exec.Command("fusermount3", "-u", mnt).Run() })
		},
		put:     func(s *site, from, to string) { copyFile(s, from, mounted(s, to)) },
		get:     func(s *site, from, to string) { copyFile(s, mounted(s, from), to) },
		putTree: func(s *site, from, to string) { s.run("cp", "-r", from, mounted(s, to)) },
		getTree: func(s *site, from, to string) { s.run("cp", "-r", mounted(s, from), to) },
		list:    func(s *site, dir string) string { return s.run("ls", mounted(s, dir)) },
		rename:  func(s *site, a, b string) { check(s, os.Rename(mounted(s, a), mounted(s, b))) },
		symlink: func(s *site, a, b string) { check(s, os.Symlink(a, mounted(s, b))) },
		chmod:   func(s *site, mode, name string) { s.run("chmod", mode, mounted(s, name)) },
	}
}()
