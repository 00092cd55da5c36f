package clients_test

import (
	"path/filepath"
	"slices"
	"strings"
)

var openSSHSFTP = func() *client {
	batch := func(s *site, command string) string {
		return s.feed(command+"\n", "sftp", append(s.sshOptions(), "-P", s.port, "-b", "-",
			"u@127.0.0.1")...)
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
		rename: do("rename %s %s"), symlink: do("symlink %s %s"), link: do("ln %s %s"),
		chmod: do("chmod %s %s"), copy: do("copy %s %s"),
	}
}()

func openSSHSCP(protocol string) *client {
	scp := func(s *site, args ...string) {
		s.t.Helper()
		s.run("scp", slices.Concat(s.sshOptions(), []string{protocol, "-P", s.port}, args)...)
	}
	remote := func(name string) string {
		if protocol == "-O" {
			name = strings.ReplaceAll(name, " ", `\ `) // quoted for a shell, though there is none
		}
		return "u@127.0.0.1:" + name
	}
	return &client{
		programs: []string{"scp"},
		put:      func(s *site, from, to string) { scp(s, from, remote(to)) },
		get:      func(s *site, from, to string) { scp(s, remote(from), to) },
		putTree:  func(s *site, from, to string) { scp(s, "-r", from, remote(to)) },
		getTree:  func(s *site, from, to string) { scp(s, "-r", remote(from), to) },
		// A mode is sent only with a file.
		chmod: func(s *site, mode, name string) {
			s.copyWithMode(name, mode)
			scp(s, "-p", filepath.Join(s.local, name), remote(name))
		},
		cannot: onlyCopies("scp"),
	}
}
