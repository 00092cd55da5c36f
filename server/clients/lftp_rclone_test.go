package clients_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usftp/usftp/internal/testenv"
)

var lftp = func() *client {
	do := func(s *site, command string) string {
		connect := "ssh -a -x " + strings.Join(s.sshOptions(), " ")
		return s.run("lftp", "--norc", "-c",
			fmt.Sprintf("set sftp:auto-confirm yes; set cmd:fail-exit yes; set net:max-retries 1; "+
				"set sftp:connect-program %s; open -u u, sftp://127.0.0.1:%s && %s", quote(connect),
				s.port, command))
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
		cannot: map[string]string{
			"link": "lftp makes hard links by later versions of SFTP only",
			"copy": "lftp copies by way of itself only",
		},
	}
}()

var rclone = func() *client {
	do := func(s *site, args ...string) string {
		return s.run("rclone", append([]string{"--config", "/dev/null", "--retries", "1"},
			args...)...)
	}
	remote := func(s *site, name string) string {
		return fmt.Sprintf(":sftp,host=127.0.0.1,port=%s,user=u,key_file=%q,shell_type=none:%s",
			s.port, s.key, name)
	}
	return &client{
		programs: []string{"rclone"},
		put:      func(s *site, from, to string) { do(s, "copyto", from, remote(s, to)) },
		get:      func(s *site, from, to string) { do(s, "copyto", remote(s, from), to) },
		putTree:  func(s *site, from, to string) { do(s, "copy", from, remote(s, to)) },
		getTree:  func(s *site, from, to string) { do(s, "copy", remote(s, from), to) },
		list:     func(s *site, dir string) string { return do(s, "lsf", remote(s, dir)) },
		rename:   func(s *site, a, b string) { do(s, "moveto", remote(s, a), remote(s, b)) },
		cannot: map[string]string{
			"resume put": "rclone starts over", "resume get": "rclone starts over",
			"symlink": "rclone makes no links by SFTP",
			"link":    "rclone makes no links by SFTP", "chmod": "rclone sends times and no modes",
			"copy": "rclone has the server copy by a shell's cp only",
		},
	}
}()

var curl = func() *client {
	do := func(s *site, name string, args ...string) string {
		url := fmt.Sprintf("sftp://u@127.0.0.1:%s/%s", s.port, strings.ReplaceAll(name, " ", "%20"))
		return s.run("curl", slices.Concat([]string{"-sS", "-k", "--key", s.key, "--pubkey",
			s.key + ".pub"}, args, []string{url})...)
	}
	command := func(word string) func(*site, string, string) {
		return func(s *site, a, b string) {
			do(s, "", "-l", "-o", "/dev/null", "-Q",
				words(word+" %s %s", a, b))
		}
	}
	return &client{
		programs: []string{"curl"},
		prepare: func(s *site) {
			if !strings.Contains(s.run("curl", "--version"), "sftp") {
				testenv.Unavailable(s.t, "a curl that speaks SFTP")
			}
		},
		put:       func(s *site, from, to string) { do(s, to, "-T", from) },
		get:       func(s *site, from, to string) { do(s, from, "-o", to) },
		resumePut: func(s *site, from, to string) { do(s, to, "-C", "-", "-T", from) },
		resumeGet: func(s *site, from, to string) { do(s, from, "-C", "-", "-o", to) },
		list:      func(s *site, dir string) string { return do(s, dir+"/", "-l") },
		rename:    command("rename"),
		symlink: func(s *site, a, b string) {
			word := "symlink"
			// Debian's libssh2 1.10.0-3+deb12u1 reports a link that was made as an error, whoever
			// the server is. With the star curl ends well, and the link itself is looked at.
			if strings.Contains(s.run("curl", "--version"), "libssh2/1.10.") {
				word = "*symlink"
			}
			command(word)(s, a, b)
		},
		chmod: func(s *site, mode, name string) {
			do(s, "", "-l", "-o", "/dev/null", "-Q",
				"chmod "+mode+" "+name)
		},
		cannot: map[string]string{
			"put tree": "curl moves single files", "get tree": "curl moves single files",
			"link": "libssh2 knows no hard links", "copy": "libssh2 does not know copy-data",
		},
	}
}()
