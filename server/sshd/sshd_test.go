package sshd_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/server/sshd"
)

// require skips the test without program, or fails where USFTP_REQUIRE=1 says that the machine is to have it.
func require(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("USFTP_REQUIRE") == "1" {
			t.Fatalf("%s is not installed", program)
		}
		t.Skipf("%s is not installed", program)
	}
}

// serve serves dir to whoever has the key it returns the file of, and returns the port.
func serve(t *testing.T, dir string) (port int, keyFile string) {
	t.Helper()
	require(t, "ssh-keygen")
	keyFile = filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keyFile).CombinedOutput(); err != nil {
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

func TestOpenSSHClient(t *testing.T) {
	require(t, "sftp")
	served, local := t.TempDir(), t.TempDir()
	port, key := serve(t, served)
	data := make([]byte, 5<<20+123)
	rand.Read(data)
	if err := os.WriteFile(filepath.Join(local, "a"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	batch := fmt.Sprintf("put %s/a up\nget up %s/b\nmkdir d\nrename up d/up\nls -la\nls -l d\ndf\n", local, local)
	cmd := exec.Command("sftp", "-P", fmt.Sprint(port), "-i", key, "-b", "-", "-F", "none",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "127.0.0.1")
	cmd.Stdin = bytes.NewBufferString(batch)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sftp: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	for _, name := range []string{filepath.Join(local, "b"), filepath.Join(served, "d/up")} {
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(data), err)
		}
	}
}
