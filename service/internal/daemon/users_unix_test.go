//go:build unix

package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// writeConfig writes a configuration of two users with their own directories, who have the key.
func writeConfig(t *testing.T, home, key, more string) (file, alice, bob string) {
	t.Helper()
	alice, bob = filepath.Join(home, "alice"), filepath.Join(home, "bob")
	for _, dir := range []string{alice, bob} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file = filepath.Join(home, "usftpd.toml")
	writeFile(t, file, []byte(`listen = ["127.0.0.1:0"]
`+more+`
[[users]]
name = "alice"
root = "alice"
authorized_keys = "id.pub"
quota_bytes = "1MB"
[[users]]
name = "bob"
root = "bob"
keys = ["`+strings.TrimSpace(string(readFile(t, key+".pub")))+`"]
read_only = true
`))
	return file, alice, bob
}

// The documentation's example starts unchanged, except for the port, which may be in use.
func TestExampleStarts(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file := filepath.Join(home, "usftpd.toml")
	writeFile(t, file, readFile(t, "../../../docs/usftpd.toml"))
	s := servetest.Start(t, home, "usftpd", "--config", file, "--listen", servetest.Loopback)
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	secure, channels, requests, err := ssh.NewClientConn(conn, "", &ssh.ClientConfig{
		User: "guest", Auth: []ssh.AuthMethod{ssh.Password("example")},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := usftp.NewClient(ssh.NewClient(secure, channels, requests))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if info, err := client.Stat("usftpd.toml"); err != nil || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if err := client.Remove("usftpd.toml"); err == nil {
		t.Error("a file was removed")
	}
}

// Of an upload whose client or server was killed nothing is visible, unless files are written in
// place; the client goes on with it after the server was started again.
func TestUploads(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		setting string
		atomic  bool
		killed  bool // the server
	}{"default": {"", true, false}, "atomic": {"uploads = 'atomic'", true, true},
		"in place": {"uploads = 'in-place'", false, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, key := servetest.HomeWithKey(t)
			file, alice, _ := writeConfig(t, home, key, one.setting)
			data := randomData(500_000)
			writeFile(t, filepath.Join(home, "f"), data)
			s := servetest.Start(t, home, "usftpd", "--config", file)
			conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
			if err != nil {
				t.Fatal(err)
			}
			upload, err := aliceOn(t, conn, key).Create("f")
			if err == nil {
				_, err = upload.Write(data[:300_000])
			}
			if err != nil {
				t.Fatal(err)
			}
			if one.killed {
				s.End(syscall.SIGKILL, -1)
			} else {
				conn.Close()
				s.Wait("file abandoned", func(f map[string]any) bool {
					return f["written"] == 300_000.0
				})
				s.End(syscall.SIGTERM, 0)
			}
			if _, err := os.Stat(filepath.Join(alice, "f")); (err == nil) == one.atomic {
				t.Errorf("what has come of the file: %v", err)
			}
			s = servetest.Start(t, home, "usftpd", "--config", file)
			out, err := s.SFTP("alice", key, "reput f\nls\n")
			if err != nil || strings.Contains(out, ".upload-") {
				t.Errorf("%v\n%s", err, out)
			}
			s.Wait("file closed", func(f map[string]any) bool { return f["written"] == 200_000.0 })
			servetest.Same(t, data, filepath.Join(alice, "f"))
			if entries, err := os.ReadDir(alice); err != nil || len(entries) != 1 {
				t.Errorf("there are %v, %v", entries, err)
			}
		})
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, alice, bob := writeConfig(t, home, key, "")
	writeFile(t, filepath.Join(home, "big"), randomData(2_000_000))
	writeFile(t, filepath.Join(home, "small"), randomData(500_000))
	writeFile(t, filepath.Join(bob, "a"), []byte("bob's"))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	if s.Greeting["users"] != "2" {
		t.Errorf("the greeting is %q", s.Greeting)
	}
	if out, err := s.SFTP("alice", key, "put small\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.SFTP("alice", key, "put big\n"); err == nil ||
		!strings.Contains(out, "quota exceeded") && !strings.Contains(out, "Failure") {
		t.Errorf("more than the quota goes in: %v\n%s", err, out)
	}
	if out, err := s.Client("", opensshd.Find(t, "ssh-keyscan"), "-T", "300", "-t", "rsa,ecdsa",
		"-p", s.Port, "127.0.0.1"); err != nil || !strings.Contains(out, " ssh-rsa ") ||
		!strings.Contains(out, " ecdsa-sha2-nistp256 ") {
		t.Errorf("clients without Ed25519 find no key: %v\n%s", err, out)
	}
	if out, err := s.SFTP("bob", key, "get a\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.SFTP("bob", key, "put small\n"); err == nil {
		t.Errorf("bob writes:\n%s", out)
	}
	servetest.Same(t, randomData(500_000), filepath.Join(alice, "small"))
	servetest.Same(t, []byte("bob's"), filepath.Join(home, "a"))

	// Files that others put there count after SIGHUP.
	writeFile(t, filepath.Join(alice, "by another"), randomData(400_000))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.Wait("quota counted", func(f map[string]any) bool {
		return f["bytes"] == 900_000.0 &&
			f["files"] == 2.0
	})
	if out, err := s.SFTP("alice", key, "put small second\n"); err == nil {
		t.Errorf("alice has 900 kB of 1 MB, and 500 kB go in:\n%s", out)
	}
	s.Wait("request denied", func(f map[string]any) bool {
		return f["by"] == "quota" &&
			f["path"] == "/second"
	})

	// A user is added on SIGHUP, one is removed, and a mistake changes nothing.
	text := string(readFile(t, file))
	writeFile(t, file, []byte(strings.ReplaceAll(text, `name = "alice"`, `name = "carol"`)))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.WaitFor("reloaded", 2)
	if out, err := s.SFTP("carol", key, "ls -l small\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.SFTP("alice", key, "pwd\n"); err == nil {
		t.Errorf("alice is still let in:\n%s", out)
	}
	writeFile(t, file, []byte(text+"mistake = 1\n"))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	line := s.Wait("reload failed; the old settings stay in effect", nil)
	if want := fmt.Sprintf(`%s:%d: unknown setting "users.mistake"`, file,
		strings.Count(text, "\n")+1); line["error"] != want {
		t.Errorf("the log says %q, want %q", line["error"], want)
	}
	// Nor does one that only the server finds.
	writeFile(t, file, []byte("host_keys = [\"id.pub\"]\n"+text))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.WaitFor("reload failed; the old settings stay in effect", 2)
	if out, err := s.SFTP("carol", key, "pwd\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBanner: OpenSSH's client shows the banner, whether it gets in or not, and another one after
// SIGHUP.
func TestBanner(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, `banner = "banner.txt"`)
	banner := filepath.Join(home, "banner.txt")
	writeFile(t, banner, []byte("Partners only.\nÜbrigens: all is logged.\n"))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	shown := func(user string) (string, error) {
		return s.Client("pwd\n", opensshd.Find(t, "sftp"), append([]string{"-o", "LogLevel=INFO"},
			s.SSHFlags("-i", key, "-b", "-", user+"@127.0.0.1")...)...)
	}
	if out, err := shown("alice"); err != nil ||
		!strings.Contains(out, "Partners only.\nÜbrigens: all is logged.\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := shown("nobody"); err == nil || !strings.Contains(out, "Partners only.") {
		t.Errorf("%v\n%s", err, out)
	}
	writeFile(t, banner, []byte("Closed on Sunday.\n"))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.WaitFor("reloaded", 1)
	if out, err := shown("alice"); err != nil ||
		!strings.Contains(out, "Closed on Sunday.") {
		t.Errorf("%v\n%s", err, out)
	}
}

// aliceOn logs in as alice over a connection, with our own client.
func aliceOn(t *testing.T, conn net.Conn, key string) *usftp.Client {
	t.Helper()
	return clientOn(t, conn, "alice", key)
}

func clientOn(t *testing.T, conn net.Conn, user, key string) *usftp.Client {
	t.Helper()
	secure, err := loginAs(t, conn, user, key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := usftp.NewClient(secure)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// loginOn is aliceOn for a key that may be the wrong one.
func loginOn(t *testing.T, conn net.Conn, key string) (*ssh.Client, error) {
	t.Helper()
	return loginAs(t, conn, "alice", key)
}

func loginAs(t *testing.T, conn net.Conn, user, key string) (*ssh.Client, error) {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(readFile(t, key))
	if err != nil {
		t.Fatal(err)
	}
	secure, channels, requests, err := ssh.NewClientConn(conn, "", &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(secure, channels, requests), nil
}

// Bans apply to the client that failed, not to the balancer that forwarded it.
func TestBansBehindProxy(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, `proxy_protocol = ["127.0.0.1"]
[bans]
address_failures = 8`)
	stranger := opensshd.Keygen(t, filepath.Join(home, "stranger"))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	login := func(from, key string) error {
		t.Helper()
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "PROXY TCP4 "+from+" 192.0.2.1 4711 22\r\n")
		client, err := loginOn(t, conn, key)
		if err == nil {
			client.Close()
		}
		return err
	}
	for range 12 { // a little is forgiven in the meantime
		if login("192.0.2.7", stranger) == nil {
			t.Fatal("a stranger was let in")
		}
	}
	s.Wait("address banned", func(f map[string]any) bool { // and not only for alice's passwords
		return f["remote"] == "192.0.2.7:4711" && f["user"] == nil
	})
	if login("192.0.2.7", key) == nil {
		t.Error("a banned address was let in")
	}
	s.Wait("login failed", func(f map[string]any) bool {
		return f["error"] == "the address is banned"
	})
	if err := login("192.0.2.8", key); err != nil {
		t.Errorf("another client of the same balancer: %v", err)
	}
}

// Behind a load balancer a client has the address that the balancer reports.
func TestBehindProxy(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, `proxy_protocol = ["127.0.0.1"]`)
	writeFile(t, filepath.Join(alice, "a"), randomData(300_000))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "PROXY TCP4 192.0.2.7 192.0.2.1 4711 22\r\n")
	client := aliceOn(t, conn, key)
	f, err := client.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := f.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), randomData(300_000)) {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
	client.Close()
	s.Wait("logged in", func(f map[string]any) bool { return f["remote"] == "192.0.2.7:4711" })
	if out, err := s.SFTP("alice", key, "pwd\n"); err == nil {
		t.Errorf("a balancer's connection without a header is served:\n%s", out)
	}
	for range 150 { // more than one address may cause lines at once
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "SSH-2.0-x\r\n")
		io.Copy(io.Discard, conn)
		conn.Close()
	}
	const why = "no PROXY protocol header from a trusted proxy"
	s.Wait("login failed", func(f map[string]any) bool {
		return strings.Contains(fmt.Sprint(f["error"]), why)
	})
	if lines := strings.Count(s.Log.String(), why); lines > 140 {
		t.Errorf("%d lines", lines)
	}
}
