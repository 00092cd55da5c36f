//go:build unix

package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// An asker answers the questions of OpenSSH's client and of usftp, in their order, from a list.
type asker struct {
	t      *testing.T
	server *servetest.Server
	key    string   // a file, or "" to log in with passwords only
	more   []string // flags
}

var buildClient = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "usftp-client")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "usftp")
	build := exec.Command("go", "build", "-o", name, "./cmd/usftp")
	build.Dir = "../../.."
	out, err := build.CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return name, err
})

// run lists the directory with a client, "sftp" or "usftp", which is given these answers, and
// returns what it prints and what it has asked.
func (a asker) run(client, user string, answers ...string) (out, asked string, err error) {
	a.t.Helper()
	dir := a.t.TempDir()
	ask := filepath.Join(dir, "ask")
	writeFile(a.t, filepath.Join(dir, "answers"), []byte(strings.Join(append(answers, ""), "\n")))
	writeFile(a.t, ask, []byte(`#!/bin/sh
cd `+dir+`
printf '%s\n' "$1" >>asked
[ -s answers ] || exit 1
head -n 1 answers
sed -i 1d answers
`))
	if err := os.Chmod(ask, 0o700); err != nil {
		a.t.Fatal(err)
	}
	args := append(a.server.SSHFlags("-o", "NumberOfPasswordPrompts=1"), a.more...)
	if a.key != "" {
		args = append(args, "-o", "IdentityFile="+a.key)
	} else {
		args = append(args, "-o", "PubkeyAuthentication=no")
	}
	name, stdin := "", ""
	if client == "sftp" {
		args = append(append([]string{"-o", "BatchMode=no"}, args...), "-b", "-",
			strings.TrimPrefix(user+"@127.0.0.1", "@"))
		name, stdin = opensshd.Find(a.t, "sftp"), "ls\n"
	} else {
		args = append(append([]string{"ls"}, args[2:]...), user+"@127.0.0.1:/") // without -F none
		if name, err = buildClient(); err != nil {
			a.t.Fatal(err)
		}
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "SSH_AUTH_SOCK=", "SSH_ASKPASS="+ask,
		"SSH_ASKPASS_REQUIRE=force", "DISPLAY=:0")
	cmd.Stdin = strings.NewReader(stdin)
	all, err := cmd.CombinedOutput()
	questions, _ := os.ReadFile(filepath.Join(dir, "asked"))
	return string(all), string(questions), err
}

// passwordLogin logs in with one password, and opens a session.
func passwordLogin(t *testing.T, s *servetest.Server, user, password string) (*usftp.Client,
	error) {
	t.Helper()
	conn, err := ssh.Dial("tcp", "127.0.0.1:"+s.Port, &ssh.ClientConfig{User: user,
		Auth:            []ssh.AuthMethod{ssh.Password(password)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	client, err := usftp.NewClient(conn)
	if err != nil {
		conn.Close()
	}
	return client, err
}
