//go:build unix

package daemon

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
)

// takenOver asks a server to restart, and returns the process that has taken over, which ends with
// the test.
func takenOver(t *testing.T, s *servetest.Server) *os.Process {
	t.Helper()
	s.Cmd.Process.Signal(syscall.SIGUSR2)
	return follows(t, s)
}

// follows waits for the process that takes over, and is none of those before it.
func follows(t *testing.T, s *servetest.Server, before ...*os.Process) *os.Process {
	t.Helper()
	line := s.Wait("another process has taken over; running sessions go on",
		func(f map[string]any) bool {
			return !slices.ContainsFunc(before, func(p *os.Process) bool {
				return float64(p.Pid) == f["pid"]
			})
		})
	next, err := os.FindProcess(int(line["pid"].(float64)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		next.Signal(syscall.SIGTERM)
		<-s.Ended // both have closed their output
	})
	return next
}

// TestUpgrade: when the package is upgraded an upload goes on that has begun, and the new program
// serves others, also where systemctl has no such option as --kill-whom.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	postinstall := string(readFile(t, filepath.Join("..", "..", "..", "packaging", "postinstall.sh")))
	home, key := servetest.HomeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, "grace = '100ms'")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // for which the old process waits
	client := aliceOn(t, conn, key)
	data := randomData(300_000)
	upload, err := client.Create("begun")
	if err == nil {
		_, err = upload.Write(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, text := range map[string]string{
		"systemd-sysusers": "exit 0", "install": "exit 0",
		"systemctl": fmt.Sprintf(`case "$1 $2 $3" in
			"kill --kill-who=main --signal=USR2") kill -USR2 %[1]d;;
			kill*) exit 1;;
			*restart*) kill -TERM %[1]d;;
			esac`, s.Cmd.Process.Pid),
	} {
		program := filepath.Join(bin, name)
		writeFile(t, program, []byte("#!/bin/sh\n"+text+"\n"))
		if err := os.Chmod(program, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script := exec.Command("sh", "-c", strings.ReplaceAll(postinstall, "/run/systemd/system", bin))
	script.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	follows(t, s)
	if out, err := s.SFTP("bob", key, "pwd\n"); err != nil {
		t.Errorf("the new process: %v\n%s", err, out)
	}
	if err := upload.Close(); err != nil {
		t.Errorf("what had begun: %v", err)
	}
	if got := readFile(t, filepath.Join(alice, "begun")); !bytes.Equal(got, data) {
		t.Errorf("%d bytes are there", len(got))
	}
}

// TestRestart: while OpenSSH's clients log in all the time, another process takes over, metrics
// included, and none of them is turned away. An upload that had begun goes on in the old one, which
// ends with it.
func TestRestart(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, "metrics = '127.0.0.1:0'")
	notified, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram",
		Name: filepath.Join(home, "notify")})
	if err != nil {
		t.Fatal(err)
	}
	defer notified.Close()
	s := servetest.Start(t, home, "env NOTIFY_SOCKET="+filepath.Join(home, "notify")+" usftpd",
		"--config", file)
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		t.Fatal(err)
	}
	old := aliceOn(t, conn, key)
	upload, err := old.Create("begun")
	if err == nil {
		_, err = upload.Write(randomData(300_000))
	}
	if err != nil {
		t.Fatal(err)
	}

	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for {
				if out, err := s.SFTP("bob", key, "pwd\n"); err != nil {
					t.Errorf("a client is turned away: %v\n%s", err, out)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	takenOver(t, s)
	text := make([]byte, 100)
	if n, err := notified.Read(text); err != nil ||
		!strings.HasPrefix(string(text[:n]), "MAINPID=") {
		t.Errorf("systemd is told %q, %v", text[:n], err)
	}
	if out, err := s.SFTP("bob", key, "pwd\n"); err != nil {
		t.Errorf("the new process: %v\n%s", err, out)
	}
	close(stop)
	clients.Wait()
	// The old process, which has a connection, does not serve the metrics.
	testenv.Until(t, "the new process has no connections", func() bool {
		answer, err := http.Get(s.Greeting["metrics"])
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		metrics, err := io.ReadAll(answer.Body)
		return err == nil && strings.Contains(string(metrics), "\nusftp_connections 0\n")
	})

	if _, err := upload.Write(randomData(200_000)); err != nil {
		t.Errorf("what had begun: %v", err)
	}
	if err := upload.Close(); err != nil {
		t.Errorf("what had begun: %v", err)
	}
	old.Close()
	conn.Close()
	s.Wait("ended", nil)
	servetest.Same(t, append(randomData(300_000), randomData(200_000)...),
		filepath.Join(alice, "begun"))
	if out, err := s.SFTP("bob", key, "pwd\n"); err != nil {
		t.Errorf("the new process: %v\n%s", err, out)
	}
}

// TestRestartThatFails: with a mistake in the configuration the old process goes on, and with what
// changed since another one takes over.
func TestRestartThatFails(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, "")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	text := string(readFile(t, file))
	writeFile(t, file, []byte("mistake = 1\n"+text))
	s.Cmd.Process.Signal(syscall.SIGUSR2)
	s.Wait("the restart failed; this process goes on", nil)
	if out, err := s.SFTP("alice", key, "pwd\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	writeFile(t, file, []byte(strings.Replace(text, `name = "alice"`, `name = "carol"`, 1)))
	takenOver(t, s)
	if out, err := s.SFTP("carol", key, "pwd\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.SFTP("alice", key, "pwd\n"); err == nil {
		t.Errorf("the old process serves:\n%s", out)
	}
}

// TestDisabledAfterRestart: after another process has taken over, the old one lets those who are
// logging in there in, but no longer a user who was disabled in the meantime.
func TestDisabledAfterRestart(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, "[store]\nfile = 'store.db'\n[limits]\n"+
		"logins = 200\nlogins_each_address = 100")
	do(t, home, file, "", "user add", "--root", alice, "--key", key+".pub", "stored")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	var waiting []peeked
	for range 60 {
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		waiting = append(waiting, peeked{conn, bufio.NewReader(conn)})
		if _, err := waiting[len(waiting)-1].Peek(1); err != nil { // it is accepted
			t.Fatal(err)
		}
	}
	takenOver(t, s)
	do(t, home, file, "", "user disable stored")
	// It looks for changes of users every second.
	tries := time.NewTicker(100 * time.Millisecond)
	defer tries.Stop()
	testenv.Until(t, "the old process refuses the user", func() bool {
		if len(waiting) == 0 {
			t.Fatal("the old process lets the user in")
		}
		<-tries.C
		client, err := loginAs(t, waiting[0], "stored", key)
		waiting = waiting[1:]
		if err != nil {
			return true
		}
		defer client.Close()
		_, err = usftp.NewClient(client)
		return err != nil
	})
	s.Wait("login refused", func(f map[string]any) bool { return f["user"] == "stored" })
}

// restarting is a server that is started again, whose users come and go.
type restarting struct {
	*servetest.Server
	t         *testing.T
	file, key string
}

func newRestarting(t *testing.T) *restarting {
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, "")
	return &restarting{servetest.Start(t, home, "usftpd", "--config", file), t, file, key}
}

// session begins a session with the process that accepts connections now.
func (r *restarting) session(user string) {
	r.t.Helper()
	clientOn(r.t, dialTo(r.t, r.Server), user, r.key)
}

// ends waits until a process has ended a user's session.
func (r *restarting) ends(user string) {
	r.t.Helper()
	r.Wait("session failed", func(f map[string]any) bool {
		return f["user"] == user && f["error"] == "the connection was ended here"
	})
}

// rename has another user take the place of one in the file.
func (r *restarting) rename(from, to string) {
	writeFile(r.t, r.file, []byte(strings.Replace(string(readFile(r.t, r.file)),
		fmt.Sprintf("name = %q", from), fmt.Sprintf("name = %q", to), 1)))
}

// TestRemovedAfterRestart: when another process has taken over, and a third one from that, a reload
// ends the sessions of a user whom the file no longer has in all of them. So does the restart itself.
func TestRemovedAfterRestart(t *testing.T) {
	t.Parallel()
	r := newRestarting(t)
	r.session("alice")
	r.session("bob")
	r.rename("alice", "carol")
	second := takenOver(t, r.Server)
	r.ends("alice")
	r.session("carol")
	second.Signal(syscall.SIGUSR2)
	third := follows(t, r.Server, second)
	r.rename("carol", "dora")
	r.rename("bob", "emil")
	third.Signal(syscall.SIGHUP)
	r.ends("carol")
	r.ends("bob")
}

// TestRemovedAfterRestarts: a reload ends the sessions of the first process also if the one that
// followed has already ended. So does the restart that ends it.
func TestRemovedAfterRestarts(t *testing.T) {
	t.Parallel()
	r := newRestarting(t)
	r.session("alice")
	r.session("bob")
	second := takenOver(t, r.Server)
	r.rename("alice", "carol")
	second.Signal(syscall.SIGUSR2)
	third := follows(t, r.Server, second)
	r.Wait("ended", nil)
	r.ends("alice")
	r.rename("bob", "dora")
	third.Signal(syscall.SIGHUP)
	r.ends("bob")
}

// TestReloadOfReplacedFails: the log says that it is a process that was replaced which cannot read
// the settings again, as one of an older version, and that it has ended.
func TestReloadOfReplacedFails(t *testing.T) {
	t.Parallel()
	r := newRestarting(t)
	conn := dialTo(t, r.Server)
	aliceOn(t, conn, r.key)
	next := takenOver(t, r.Server)
	old := func(f map[string]any) bool {
		return f["replaced_process"] == float64(r.Cmd.Process.Pid)
	}
	r.Wait("reloaded", old)
	text := readFile(t, r.file)
	if err := errors.Join(os.Remove(r.file), syscall.Mkfifo(r.file, 0o600)); err != nil {
		t.Fatal(err)
	}
	next.Signal(syscall.SIGHUP)
	writeFile(t, r.file, text) // for the new process, which reads it first
	r.Wait("reloaded", func(f map[string]any) bool { return !old(f) })
	writeFile(t, r.file, append([]byte("newer = 1\n"), text...))
	r.Wait("reload failed; the old settings stay in effect", old)
	conn.Close()
	r.Wait("ended", old)
}

// TestReplacedIsStopped: the log says that it is a process that was replaced which shuts down.
func TestReplacedIsStopped(t *testing.T) {
	t.Parallel()
	r := newRestarting(t)
	conn := dialTo(t, r.Server)
	aliceOn(t, conn, r.key)
	takenOver(t, r.Server)
	r.Cmd.Process.Signal(syscall.SIGTERM)
	old := func(f map[string]any) bool {
		return f["replaced_process"] == float64(r.Cmd.Process.Pid)
	}
	r.Wait("shutting down", old)
	conn.Close()
	r.Wait("ended", old)
}

// TestReloadWhileRestarting: a process that takes over reads the settings again if the one before it
// was asked to after they were read, or is asked to later.
func TestReloadWhileRestarting(t *testing.T) {
	t.Parallel()
	r := newRestarting(t)
	r.session("bob") // so that the old process goes on
	keys := filepath.Join(t.TempDir(), "keys")
	if err := syscall.Mkfifo(keys, 0o600); err != nil {
		t.Fatal(err)
	}
	text := string(readFile(t, r.file))
	writeFile(t, r.file, []byte(text+"\n[[users]]\nname = 'slow'\nroot = '.'\nauthorized_keys = '"+
		keys+"'\n"))
	r.Cmd.Process.Signal(syscall.SIGUSR2)
	reading, err := os.OpenFile(keys, os.O_WRONLY, 0) // by the new process, which has read the rest
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, r.file, []byte(text))
	r.rename("alice", "carol")
	r.Cmd.Process.Signal(syscall.SIGHUP)
	if err := reading.Close(); err != nil {
		t.Fatal(err)
	}
	follows(t, r.Server)
	testenv.Until(t, "the new process lets carol in", func() bool {
		_, err := r.SFTP("carol", r.key, "pwd\n")
		return err == nil
	})
	r.session("carol")
	r.rename("carol", "dora")
	r.rename("bob", "emil")
	r.Cmd.Process.Signal(syscall.SIGHUP)
	r.ends("carol")
	r.ends("bob")
}

// peeked is a connection of which the first bytes were looked at.
type peeked struct {
	net.Conn
	*bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.Reader.Read(b) }

// TestReloadNamesWhatNeedsARestart: after a reload the log names the settings that have changed and
// have no effect yet, and no others. After the restart there are none, also for the old process.
func TestReloadNamesWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, "grace = '5s'\n[store]\nfile = 'store.db'")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	const says = "settings have changed that need a restart"
	text := string(readFile(t, file))
	reload := func(text string) {
		writeFile(t, file, []byte(text))
		s.Cmd.Process.Signal(syscall.SIGHUP)
	}
	reload("banner = 'id.pub'\n" + text)
	s.Wait("reloaded", nil)
	if strings.Contains(s.Log.String(), says) {
		t.Errorf("nothing needs a restart:\n%s", s.Log)
	}
	reload(strings.Replace(text, "grace = '5s'", "grace = '6s'\nproxy_protocol = ['127.0.0.1']", 1) +
		"[audit]\n")
	s.Wait(says, func(f map[string]any) bool {
		return f["settings"] == "grace, the audit trail, trusted proxies"
	})
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	aliceOn(t, conn, key) // so that the old process goes on
	takenOver(t, s)
	testenv.Until(t, "the old process has reloaded", func() bool {
		return strings.Count(s.Log.String(), `"reloaded"`) == 3
	})
	if n := strings.Count(s.Log.String(), says); n != 1 {
		t.Errorf("after the restart:\n%s", s.Log)
	}
}
