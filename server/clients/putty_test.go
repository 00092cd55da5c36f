package clients_test

import (
	"os"
	"path/filepath"
	"strings"
)

// puttyKey makes a key that PuTTY's programs can read.
func puttyKey(s *site) { s.run("puttygen", s.key, "-o", s.key+".ppk") }

var psftp = func() *client {
	batch := func(s *site, command string) string {
		file := filepath.Join(s.local, ".batch")
		s.write(file, []byte(command+"\nquit\n"))
		return s.run("psftp", "-batch", "-P", s.port, "-i", s.key+".ppk", "-hostkey", s.hostKey,
			"-b", file, "u@127.0.0.1")
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
		cannot: map[string]string{
			"symlink": "psftp has no command for links", "link": "psftp has no command for links",
			"copy": "psftp does not know copy-data",
		},
	}
}()

func pscp(protocol string) *client {
	do := func(s *site, args ...string) {
		s.t.Helper()
		s.run("pscp", append([]string{"-q", "-batch", protocol, "-P", s.port, "-i", s.key + ".ppk",
			"-hostkey", s.hostKey}, args...)...)
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
	// The local file's mode is sent when a file is created.
	c.chmod = func(s *site, mode, name string) {
		s.copyWithMode(name, mode)
		if err := os.Remove(filepath.Join(s.served, name)); err != nil {
			s.t.Error(err)
		}
		do(s, filepath.Join(s.local, name), remote(name))
	}
	c.cannot = onlyCopies("pscp")
	if protocol == "-sftp" {
		c.list = func(s *site, dir string) string {
			return s.run("pscp", "-batch", protocol, "-P", s.port, "-i", s.key+".ppk", "-hostkey",
				s.hostKey, "-ls", remote(dir))
		}
		delete(c.cannot, "list")
	}
	// Trees go into an existing directory.
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
