package sshd

import (
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/memfs"
)

// TestCipherOfOpenSSH: the client's order decides, whatever it prefers, as with sshd.
func TestCipherOfOpenSSH(t *testing.T) {
	testenv.Program(t, "sftp")
	dir := makeKeys(t, "key")
	keys, err := ReadAuthorizedKeys(filepath.Join(dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDirectory(Accounts{Users: []User{{Name: "u", FS: memfs.New(0), Keys: keys}}})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Config{PublicKey: d.PublicKey})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	defer func() {
		s.Close()
		if err := <-done; !errors.Is(err, ErrServerClosed) {
			t.Error(err)
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for asked, want := range map[string]string{
		"":                                  "chacha20-poly1305@openssh.com", // its favourite
		"chacha20-poly1305@openssh.com":     "chacha20-poly1305@openssh.com",
		"aes128-ctr":                        "aes128-ctr",
		"aes256-ctr,aes256-gcm@openssh.com": "aes256-ctr",
	} {
		args := []string{"-v", "-b", "-", "-P", port, "-F", "none", "-i", filepath.Join(dir, "key"),
			"-o", "BatchMode=yes",
			"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"}
		if asked != "" {
			args = append(args, "-c", asked)
		}
		cmd := exec.Command("sftp", append(args, "u@127.0.0.1")...)
		cmd.Stdin = strings.NewReader("pwd\n")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", asked, err, out)
			continue
		}
		_, line, _ := strings.Cut(string(out), "kex: server->client cipher: ")
		if got, _, _ := strings.Cut(line, " "); !strings.HasSuffix(got, want) {
			t.Errorf("asked for %q, got %q", asked, got)
		}
	}
}

// talker is a client that sends something and then listens.
func talker(t *testing.T, s *Server, says ...string) (heard string) {
	t.Helper()
	ours, theirs := net.Pipe()
	go s.ServeConn(address{theirs})
	go func() {
		for _, text := range says {
			if _, err := io.WriteString(ours, text); err != nil {
				return
			}
			time.Sleep(time.Second) // on the fake clock
		}
	}()
	b, err := io.ReadAll(ours)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestStrangeOvertures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		for _, says := range [][]string{
			{""},
			{"GET / HTTP/1.1\r\n", "\r\n"},
			{"SSH-2.0-OpenSSH_9.2\r\n"},
			{"SSH-2.0-OpenSSH_9.2\r\n", "\xff\xff\xff\xff\xff"},
			{"SSH-2.0-OpenSSH_9.2\r\n\x00\x00\x00\x01\x05"},
			{"SSH-2.0-OpenSSH_9.2\r\n\x00\x00\x00\x0c\x0a\x14"},
			{strings.Repeat("x", 100_000)},
			{"SSH-2.0-", "Open", "SSH_9.2\r", "\n"},
		} {
			if heard := talker(t, s, says...); !strings.HasPrefix(heard, serverVersion+"\r\n") ||
				strings.Count(heard, "SSH-2.0") != 1 {
				t.Errorf("%.50q heard %.100q", says, heard)
			}
		}
	})
}

// TestSlowOverture: a client whose first packet comes late is still let in.
func TestSlowOverture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		client, theirs := net.Pipe()
		go s.ServeConn(address{theirs})
		slow := &slowReader{newEager(client)}
		conn, channels, requests, err := ssh.NewClientConn(slow, "server", &ssh.ClientConfig{
			User: "u", Auth: []ssh.AuthMethod{ssh.Password("secret")},
			HostKeyCallback: ssh.InsecureIgnoreHostKey(),
			ClientVersion:   "SSH-2.0-OpenSSH_9.2",
		})
		if err != nil {
			t.Fatal(err)
		}
		ssh.NewClient(conn, channels, requests).Close()
		time.Sleep(time.Minute) // on the fake clock: long enough for the slow reader
	})
}

// slowReader gets everything late.
type slowReader struct{ net.Conn }

func (s *slowReader) Read(p []byte) (int, error) {
	time.Sleep(200 * time.Millisecond) // on the fake clock
	return s.Conn.Read(p)
}
