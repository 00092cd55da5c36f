package pool_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
)

// Connect returns a host that can be copied to and that redials after its connection is lost; Close
// ends it for good.
func TestConnect(t *testing.T) {
	sshd := opensshd.Start(t, opensshd.Options{})
	config := pool.ConnectConfig{Dial: &dial.Config{ConfigFile: sshd.ConfigFile}}
	login, err := pool.Connect(t.Context(), dial.Target{Host: sshd.Alias}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer login.Close()
	host := login.Host()
	if host.Name != sshd.Alias || host.Pool == nil || host.Redial == nil {
		t.Fatalf("%+v", host)
	}
	dir := t.TempDir()
	source, target := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	if err := os.WriteFile(source, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Copy(t.Context(), transfer.Remote(host, target),
		transfer.Local(source), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the copy differs: %v", err)
	}
	again, err := host.Redial(t.Context())
	if err != nil || again.Client == host.Client || again.Client != login.Host().Client {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := host.Client.Stat(dir); err == nil {
		t.Error("the old client still works")
	}
	login.Close()
	if _, err := again.Client.Stat(dir); !errors.Is(err, usftp.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := again.Redial(t.Context()); !errors.Is(err, usftp.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The file that was opened along with the login is opened again if its connection is lost before
// anybody has used it, and another connection takes over.
func TestFirstRequestOfALostConnection(t *testing.T) {
	sshd := opensshd.Start(t, opensshd.Options{})
	source := sshd.ConfigFile // some file
	login, err := pool.Connect(t.Context(), dial.Target{Host: sshd.Alias}, pool.ConnectConfig{
		Source: source, Dial: &dial.Config{ConfigFile: sshd.ConfigFile}})
	if err != nil {
		t.Fatal(err)
	}
	defer login.Close()
	host := login.Host()
	further := pools.OfPool(host.Pool)
	further.Want(2, 1)
	for {
		sessions, changed := further.Sessions()
		if len(sessions) > 0 {
			break
		}
		<-changed
	}
	conn := pool.NewConn(t.Context(), host, pool.Retry{Retries: 1})
	lost := conn.Host().Client
	lost.Close()
	if !conn.Renew(lost, usftp.ErrClosed, func(pool.Attempt) {}) {
		t.Fatal("no connection takes over")
	}
	host = conn.Host()
	f, _, err := pools.OfHost(&host).OpenRead(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// Copies that run beside one another, each with a Conn of its own, all continue over the connection
// that the first of them has made.
func TestRedialOfSeveralCopies(t *testing.T) {
	sshd := opensshd.Start(t, opensshd.Options{})
	login, err := pool.Connect(t.Context(), dial.Target{Host: sshd.Alias}, pool.ConnectConfig{
		Connections: 1, Streams: 1, Dial: &dial.Config{ConfigFile: sshd.ConfigFile}})
	if err != nil {
		t.Fatal(err)
	}
	defer login.Close()
	retry := pool.Retry{Retries: 1, Backoff: func(int) time.Duration { return 0 }}
	var copies []*pool.Conn
	for range 3 {
		copies = append(copies, pool.NewConn(t.Context(), login.Host(), retry))
	}
	for range 2 {
		var renewing sync.WaitGroup
		login.Host().Client.Close()
		for _, conn := range copies {
			renewing.Go(func() {
				lost := conn.Host().Client
				if !conn.Renew(lost, usftp.ErrClosed, func(pool.Attempt) {}) {
					t.Error("the connection is not replaced")
				}
				conn.Arrived()
			})
		}
		renewing.Wait()
		for i, conn := range copies {
			if _, err := conn.Host().Client.Stat("."); err != nil {
				t.Errorf("copy %d: %v", i, err)
			}
		}
	}
}

// If the SSH connection ends while SFTP starts, the error says so, and not what SFTP made of it.
func TestConnectionEndsAsSFTPStarts(t *testing.T) {
	sshd := opensshd.Start(t, opensshd.Options{Config: []string{
		"Subsystem sftp kill -9 $PPID; sleep 1"}})
	_, err := pool.Connect(t.Context(), dial.Target{Host: sshd.Alias},
		pool.ConnectConfig{Dial: &dial.Config{ConfigFile: sshd.ConfigFile}})
	if _, named := errors.AsType[*dial.Error](err); !named || strings.Contains(err.Error(), "SFTP") {
		t.Error(err)
	}
}

// A host without usftp has no helper. One line says why, and nothing looks like a mistake.
func TestNoHelper(t *testing.T) {
	sshd := opensshd.Start(t, opensshd.Options{Config: []string{"SetEnv PATH=/nowhere"}})
	var log bytes.Buffer
	login, err := pool.Connect(t.Context(), dial.Target{Host: sshd.Alias}, pool.ConnectConfig{
		Helper: true, Dial: &dial.Config{ConfigFile: sshd.ConfigFile,
			Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	if err != nil {
		t.Fatal(err)
	}
	helper := login.Host().Helper(t.Context())
	login.Close()
	if said := log.String(); helper != nil || strings.Contains(said, "SFTP") ||
		strings.Count(said, "it has no usftp on its PATH") != 1 {
		t.Errorf("%v: %s", helper, said)
	}
}

// Nobody is asked to log in once more for a helper or a second session: with the system's ssh each
// channel is a login.
func TestChannelsThatNeedAPerson(t *testing.T) {
	ssh := "sh -c 'exec " + opensshd.Find(t, "sftp-server") + "'"
	for batch, want := range map[string]bool{"yes": true, "no": false} {
		login, err := pool.Connect(t.Context(), dial.Target{Host: "any"}, pool.ConnectConfig{
			Helper: true, Streams: 3, Dial: &dial.Config{SSH: ssh,
				Options: []string{"BatchMode=" + batch},
				Prompter: dial.PrompterFunc(func(context.Context, dial.Prompt) (string, error) {
					return "", errors.New("nobody is here")
				})}})
		if err != nil {
			t.Fatal(err)
		}
		defer login.Close()
		if has := login.Host().Helper != nil; has != want {
			t.Errorf("BatchMode %s: it may have a helper: %v", batch, has)
		}
		if n := pools.OfPool(login.Host().Pool).Size(); (n > 1) != want {
			t.Errorf("BatchMode %s: it may have %d sessions", batch, n)
		}
	}
}

// All errors name the host.
func TestConnectErrors(t *testing.T) {
	var named *dial.Error
	for name, test := range map[string]struct {
		target dial.Target
		config *dial.Config
	}{
		"no such host": {dial.Target{Host: "nowhere.invalid"}, &dial.Config{ConfigFile: "none"}},
		"no such server": {dial.Target{Host: "any"},
			&dial.Config{Server: "no-such-program-anywhere"}},
		"no SFTP": {dial.Target{Host: "any"}, &dial.Config{Server: "go version"}},
	} {
		login, err := pool.Connect(t.Context(), test.target,
			pool.ConnectConfig{Dial: test.config})
		if login != nil || !errors.As(err, &named) || named.Host != test.target.Host {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Another SFTP server on a host may see other files, so what interrupted copies have left through
// it is not taken for what is there without it.
func TestIdentityOfAnotherServer(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{})
	identity := func(server string) string {
		login, err := pool.Connect(t.Context(), dial.Target{Host: srv.Alias}, pool.ConnectConfig{
			Dial: &dial.Config{ConfigFile: srv.ConfigFile, SFTPServer: server}})
		if err != nil {
			t.Fatal(err)
		}
		defer login.Close()
		return login.Host().Identity
	}
	usual, other := identity(""), identity(opensshd.Find(t, "sftp-server"))
	if usual == other || usual != identity("") {
		t.Errorf("%q and %q", usual, other)
	}
}

// TestIdentityThroughMaster: a master does not reveal the host's key, and an alias may lead to
// another host later.
func TestIdentityThroughMaster(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "master") // a short name for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	srv := opensshd.Start(t, opensshd.Options{})
	ssh, socket := opensshd.Find(t, "ssh"), "ControlPath="+dir+"/s"
	// -f goes to the background once the master listens.
	if out, err := exec.Command(ssh, "-F", srv.ConfigFile, "-M", "-N", "-f", "-o", socket, "-o",
		"ControlPersist=yes", srv.Alias).CombinedOutput(); err != nil {
		t.Fatalf("ssh -M: %v: %s", err, out)
	}
	t.Cleanup(func() {
		exec.Command(ssh, "-F", srv.ConfigFile, "-O", "exit", "-o", socket, srv.Alias).Run()
	})
	identity := func(options ...string) string {
		login, err := pool.Connect(t.Context(), dial.Target{Host: srv.Alias}, pool.ConnectConfig{
			Dial: &dial.Config{ConfigFile: srv.ConfigFile, Options: append(options, socket)}})
		if err != nil {
			t.Fatal(err)
		}
		defer login.Close()
		return login.Host().Identity
	}
	if now, later := identity(), identity("HostName=later.invalid"); now == later ||
		now != identity() {
		t.Errorf("%q and %q", now, later)
	}
}
