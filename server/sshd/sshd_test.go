package sshd_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/server/sshd"
)

// serve serves dir to the holder of a new key, and returns the port and the key's file.
func serve(t *testing.T, dir string) (port int, keyFile string) {
	t.Helper()
	testenv.Program(t, "ssh-keygen")
	keyFile = filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
		keyFile).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	line, err := os.ReadFile(keyFile + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	allowed, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		t.Fatal(err)
	}
	fs, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sshd.New(sshd.Config{
		PublicKey: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*sshd.Access, error) {
			if !bytes.Equal(key.Marshal(), allowed.Marshal()) {
				return nil, fmt.Errorf("unknown key")
			}
			return &sshd.Access{FS: fs}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		<-done
		fs.Close()
	})
	return l.Addr().(*net.TCPAddr).Port, keyFile
}

// run runs one of OpenSSH's programs against the server and returns its output.
func run(t *testing.T, port int, key string, stdin string, program string,
	args ...string) (string, error) {
	t.Helper()
	testenv.Program(t, program)
	options := []string{"-P", fmt.Sprint(port), "-i", key, "-F", "none", "-o",
		"StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes",
		"-o", "BatchMode=yes"}
	cmd := exec.Command(program, append(options, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// randomFile makes a file of random bytes and returns them.
func randomFile(t *testing.T, name string, size int) []byte {
	t.Helper()
	data := make([]byte, size)
	rand.Read(data)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o640); err != nil {
		t.Fatal(err)
	}
	return data
}

func expectFile(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	} else if !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes that are not the %d expected", name, len(got), len(want))
	}
}

func TestOpenSSHClient(t *testing.T) {
	served, local := t.TempDir(), t.TempDir()
	port, key := serve(t, served)
	data := randomFile(t, local+"/a", 5<<20+123)
	batch := fmt.Sprintf("put %s/a up\nget up %s/b\nmkdir d\nrename up d/up\nls -la\nls -l d\ndf\n",
		local, local)
	out, err := run(t, port, key, batch, "sftp", "-b", "-", "127.0.0.1")
	if err != nil {
		t.Fatalf("sftp: %v\n%s", err, out)
	}
	expectFile(t, local+"/b", data)
	expectFile(t, served+"/d/up", data)
}

func TestOldSCP(t *testing.T) {
	served, local := t.TempDir(), t.TempDir()
	port, key := serve(t, served)
	host := "127.0.0.1:"
	scp := func(args ...string) {
		t.Helper()
		if out, err := run(t, port, key, "", "scp",
			append([]string{"-O"}, args...)...); err != nil {
			t.Errorf("scp %q: %v\n%s", args, err, out)
		}
	}
	data := randomFile(t, local+"/tree/a", 3<<20+7)
	small := randomFile(t, local+"/tree/sub/b b", 10)
	empty := randomFile(t, local+"/tree/sub/empty", 0)
	past := time.Unix(1_000_000_000, 0)
	if err := os.Chtimes(local+"/tree/a", past, past); err != nil {
		t.Fatal(err)
	}

	scp(local+"/tree/a", host+"up")
	expectFile(t, served+"/up", data)
	scp("-r", "-p", local+"/tree", host)
	expectFile(t, served+"/tree/a", data)
	expectFile(t, served+"/tree/sub/b b", small)
	expectFile(t, served+"/tree/sub/empty", empty)
	if info, err := os.Stat(served + "/tree/a"); err != nil || !info.ModTime().Equal(past) ||
		info.Mode().Perm() != 0o640 {
		t.Errorf("-p up: %v, %v", info, err)
	}
	scp(host+"up", local+"/down")
	expectFile(t, local+"/down", data)
	scp("-r", "-p", host+"tree", local+"/back")
	expectFile(t, local+"/back/a", data)
	expectFile(t, local+"/back/sub/b b", small)
	if info, err := os.Stat(local + "/back/a"); err != nil || !info.ModTime().Equal(past) ||
		info.Mode().Perm() != 0o640 {
		t.Errorf("-p down: %v, %v", info, err)
	}
	scp(host+"tree/sub/b\\ b", local+"/quoted")
	expectFile(t, local+"/quoted", small)
	if err := os.Mkdir(local+"/globbed", 0o755); err != nil {
		t.Fatal(err)
	}
	scp(host+"tree/s?b/[be]*", local+"/globbed")
	expectFile(t, local+"/globbed/b b", small)
	expectFile(t, local+"/globbed/empty", empty)
	scp(local+"/tree/a", local+"/tree/sub/empty", host+"tree/sub")
	expectFile(t, served+"/tree/sub/a", data)

	for _, bad := range [][]string{
		{host + "none", local + "/x"},
		{local + "/tree/a", host + "none/x"},
		{local + "/tree/a", host + "../../etc/x"},
		{host + "tree", local + "/x"},
		{host + "$HOME/x", local + "/x"},
		{local + "/tree/a", host + "`touch pwned`"},
		{local + "/tree/a", local + "/tree/a", host + "up"},
	} {
		if out, err := run(t, port, key, "", "scp", append([]string{"-O"}, bad...)...); err == nil {
			t.Errorf("scp %q went well\n%s", bad, out)
		}
	}
}
