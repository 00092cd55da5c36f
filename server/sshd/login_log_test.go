package sshd

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server/internal/lograte"
	"github.com/usftp/usftp/server/memfs"
)

// logText is a log that may be read while it is written.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// has reports whether one line contains all the words.
func (l *logText) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
lines:
	for line := range strings.Lines(l.text.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		return true
	}
	return false
}

// TestFailedLoginsAreLogged: the log says who tried, from where, and how.
func TestFailedLoginsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.PublicKey = func(ssh.ConnMetadata, ssh.PublicKey) (*Access, error) {
			return nil,
				errUnknownKey
		}
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s := newServer(t, config)
		key, _, err := makeKey()
		if err != nil {
			t.Fatal(err)
		}
		for tried, auth := range map[string][]ssh.AuthMethod{
			"publickey":          {ssh.PublicKeys(key)},
			"password":           {ssh.Password("wrong")},
			"publickey,password": {ssh.PublicKeys(key), ssh.Password("wrong")},
		} {
			if _, err := connect(s, auth...); err == nil {
				t.Fatalf("%s let in", tried)
			}
			synctest.Wait()
			if !log.has(`msg="login failed"`, "remote=192.0.2.7:1", "user=u", "tried="+tried+" ") {
				t.Errorf("no line that %s was tried:\n%s", tried, log.text.String())
			}
		}
	})
}

// TestLogCannotBeFilledWithoutALogin: long names are cut, and lines are limited by address, however
// many connections there are.
func TestLogCannotBeFilledWithoutALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s := newServer(t, config)
		connections := 3 * int(lograte.Lines.Burst)
		for range connections {
			client, theirs := net.Pipe()
			go s.ServeConn(address{theirs})
			ours := newEager(client)
			if _, _, _, err := ssh.NewClientConn(ours, "", &ssh.ClientConfig{ // tries none
				User:            strings.Repeat("\x01", 200_000),
				HostKeyCallback: ssh.InsecureIgnoreHostKey(),
			}); err == nil {
				t.Fatal("let in")
			}
			ours.Close()
			synctest.Wait()
		}
		const longest = 4*lograte.MaxString*3 + 200 // escaped: the user, the error, what was tried
		lines := strings.Count(log.text.String(), "\n")
		if lines < 10 || lines > int(lograte.Lines.Burst)+5 || log.text.Len() > lines*longest {
			t.Errorf("%d connections write %d lines of %d bytes", connections, lines,
				log.text.Len())
		}
		time.Sleep(time.Minute)
		if _, err := connect(s, ssh.Password("wrong")); err == nil {
			t.Fatal("let in")
		}
		synctest.Wait()
		if !log.has("omitted=") {
			t.Error("nothing tells of what was omitted")
		}
	})
}

// TestKeysInVainAreCounted: a connection that only tries keys counts once, however many there are.
func TestKeysInVainAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.PublicKey = func(ssh.ConnMetadata, ssh.PublicKey) (*Access, error) {
			return nil,
				errUnknownKey
		}
		s := newServer(t, config)
		var keys []ssh.Signer
		for range 5 {
			key, _, err := makeKey()
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		for range usual.UserFailures - 1 {
			if _, err := connect(s, ssh.PublicKeys(keys...)); err == nil {
				t.Fatal("unknown keys let in")
			}
		}
		// A client that then gives the right password has not failed.
		if client, err := connect(s, ssh.PublicKeys(keys...), ssh.Password("secret")); err != nil {
			t.Errorf("banned too early: %v", err)
		} else {
			client.Close()
		}
		connect(s, ssh.PublicKeys(keys...))
		synctest.Wait()
		if _, err := connect(s, ssh.Password("secret")); err == nil {
			t.Error("an address that tried so many keys is not banned")
		}
		time.Sleep(2 * usual.First)
		mustConnect(t, s)
	})
}
