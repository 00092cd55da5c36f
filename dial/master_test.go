//go:build unix

package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// startMaster runs a real master, and returns its process and the word that names its socket.
func startMaster(t testing.TB, srv *opensshd.Server) (master *os.Process, controlPath string) {
	t.Helper()
	controlPath = "ControlPath=" + filepath.Join(srv.Dir, "master-%C")
	ssh := opensshd.Find(t, "ssh")
	// It says so on its standard output once it can be used: LocalCommand runs then.
	cmd := exec.Command(ssh, "-F", srv.ConfigFile, "-M", "-N", "-o", controlPath,
		"-o", "PermitLocalCommand=yes", "-o", "LocalCommand=echo up", srv.Alias)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the master answers", func() bool {
		return exec.Command(ssh, "-F", srv.ConfigFile, "-O", "check", "-o", controlPath,
			srv.Alias).Run() == nil
	})
	return cmd.Process, controlPath
}

func logins(srv *opensshd.Server) int { return strings.Count(srv.Log(), "Accepted publickey") }

func TestMaster(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	_, controlPath := startMaster(t, srv)
	keys, err := os.ReadFile(srv.AuthorizedKeys)
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(testContext(t), Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile,
		Options:  []string{controlPath, "ServerAliveInterval=1"},
		Prompter: &script{answers: []string{"never"}}})
	if err != nil {
		t.Fatal(err)
	}
	dial := func() *Conn {
		t.Helper()
		c := dialed(t, d)
		return c
	}
	first := dial()
	s := open(t, first)
	open(t, first)
	if err := first.Keepalive(testContext(t)); err != nil {
		t.Error(err)
	}
	if n := logins(srv); n != 1 {
		t.Errorf("the server saw %d logins, and the master's was one", n)
	}
	if first.HostKey() != nil || first.ServerVersion() != "" || first.RoundTrip() <= 0 ||
		d.NeedsPerson() {
		t.Errorf("host key %v, version %q, round trip %v, NeedsPerson %v", first.HostKey(),
			first.ServerVersion(), first.RoundTrip(), d.NeedsPerson())
	}
	// Others log in by themselves, for what one connection does not carry. That the host could not
	// be reached for a moment says nothing about the next one.
	tcp, away := d.tcp, errors.New("the host is away")
	d.tcp = func(context.Context) (net.Conn, error) { return nil, away }
	if _, err := d.Dial(testContext(t)); !errors.Is(err, away) || errors.Is(err, errMasterOnly) {
		t.Errorf("a login to a host that is away: %v", err)
	}
	d.tcp = tcp
	second := dial()
	open(t, second)
	if n := logins(srv); n != 2 {
		t.Errorf("the server saw %d logins, want one more", n)
	}
	second.Close()
	// Where they cannot without a person, nobody is asked, and nothing is tried again.
	writeFile(t, srv.AuthorizedKeys, "")
	for range 2 {
		if _, err := d.Dial(testContext(t)); !errors.Is(err, errMasterOnly) {
			t.Errorf("a login that needs a person: %v", err)
		}
	}
	// What comes behind a refused login, sshd complains of, in its own time.
	refused := func() int { return strings.Count(srv.Log(), "dispatch_protocol_error: type 90") }
	testenv.Until(t, "sshd complains", func() bool { return refused() > 0 })
	if n := refused(); n != 1 {
		t.Errorf("%d logins were refused, want one: %s", n, srv.Log())
	}
	if !d.NeedsPerson() {
		t.Error("NeedsPerson is false")
	}
	// The first one does not care.
	if _, err := s.Write([]byte{0, 0, 0, 5, 200, 0, 0, 0, 1}); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(s, make([]byte, 9)); err != nil {
		t.Error(err)
	}
	s.Close()
	if _, err := io.Copy(io.Discard, s); err != nil {
		t.Error(err)
	}
	first.Close()
	none(t)
	// A new connection goes through the master again.
	writeFile(t, srv.AuthorizedKeys, string(keys))
	open(t, dial())
	if n := logins(srv); n != 2 {
		t.Errorf("the server saw %d logins", n)
	}
}

// TestMasterThatIsNone: what does not answer is not waited for long, and ssh's words about who is
// the master count.
func TestMasterThatIsNone(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{})
	master, controlPath := startMaster(t, srv)
	login := func(name string, options ...string) time.Duration {
		t.Helper()
		before, began := logins(srv), time.Now()
		c := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile,
			Options: options})
		took := time.Since(began)
		open(t, c)
		c.Close()
		if logins(srv) != before+1 {
			t.Errorf("%s: it did not log in by itself", name)
		}
		return took
	}
	login("ControlMaster yes", controlPath, "ControlMaster=yes")
	login("none", "ControlPath=none")
	login("no socket", "ControlPath="+srv.ConfigFile)
	login("nothing there", "ControlPath="+filepath.Join(srv.Dir, "nothing"))
	if err := master.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if took := login("stopped", controlPath); took < masterLimit {
		t.Errorf("a stopped master was given %v", took)
	}
	master.Signal(syscall.SIGCONT)
	master.Kill()
	master.Wait()
	login("dead", controlPath)
}

// TestMasterDies: whoever is using it hears of it.
func TestMasterDies(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{})
	master, controlPath := startMaster(t, srv)
	c := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile,
		Options: []string{controlPath}})
	s := open(t, c)
	master.Kill()
	var lost *Error
	if _, err := io.Copy(io.Discard, s); !errors.As(err, &lost) {
		t.Errorf("the stream ended with %v", err)
	}
	<-c.Done()
}

// TestMasterWithoutChannel: a keepalive that cannot be sent fails, and does not wait.
func TestMasterWithoutChannel(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{})
	_, controlPath := startMaster(t, srv)
	c := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile,
		Options: []string{controlPath}})
	s := open(t, c)
	s.Close()
	if _, err := io.Copy(io.Discard, s); err != nil {
		t.Error(err)
	}
	if err := c.Keepalive(testContext(t)); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// TestMasterOfAJumpHost is a way through.
func TestMasterOfAJumpHost(t *testing.T) {
	t.Parallel()
	jump := opensshd.Start(t, opensshd.Options{Alias: "jump"})
	behind := opensshd.Start(t, opensshd.Options{Alias: "behind"})
	_, controlPath := startMaster(t, jump)
	_, path, _ := strings.Cut(controlPath, "=")
	conf := writeFile(t, filepath.Join(t.TempDir(), "c"),
		fmt.Sprintf("Host jump\n\tControlPath %s\n%s%s\tProxyJump jump\n",
			path, jump.ClientBlock(), behind.ClientBlock()))
	writeFile(t, jump.AuthorizedKeys, "")
	d, err := New(testContext(t), Target{Host: "behind"}, &Config{ConfigFile: conf})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c := dialed(t, d)
		open(t, c)
	}
	if n := logins(jump); n != 1 {
		t.Errorf("the jump host saw %d logins", n)
	}
}

// TestMasterBehindAJumpHost: a connection beside the one through the master asks nobody for
// anything, not even for the sake of a jump host, which the master may have passed long ago.
func TestMasterBehindAJumpHost(t *testing.T) {
	t.Parallel()
	jump := opensshd.Start(t, opensshd.Options{Alias: "jump"})
	behind := opensshd.Start(t, opensshd.Options{Alias: "behind"})
	startMaster(t, behind)
	sockets, err := filepath.Glob(filepath.Join(behind.Dir, "master-*"))
	if err != nil || len(sockets) != 1 {
		t.Fatal(sockets, err)
	}
	conf := writeFile(t, filepath.Join(t.TempDir(), "c"), fmt.Sprintf(
		"%s%s\tProxyJump jump\n\tControlPath %s\n", jump.ClientBlock(), behind.ClientBlock(),
		sockets[0]))
	writeFile(t, jump.KnownHosts, "")
	p := &script{answers: []string{"yes"}}
	d, err := New(testContext(t), Target{Host: "behind"}, &Config{ConfigFile: conf, Prompter: p})
	if err != nil {
		t.Fatal(err)
	}
	open(t, dialed(t, d))
	if _, err := d.Dial(testContext(t)); !errors.Is(err, errMasterOnly) {
		t.Errorf("a login beside the master: %v", err)
	}
	if len(p.asked) > 0 {
		t.Errorf("asked: %q", p.asked[0].Text)
	}
}
