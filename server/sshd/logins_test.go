package sshd

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
)

// TestListAndEndLogins: connections that have logged in are listed with how they have proved who
// they are, as their events say, and one of them is ended while the other goes on.
func TestListAndEndLogins(t *testing.T) {
	_, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	var book eventBook
	access := &Access{FS: memfs.New(0)}
	config := onlyPassword(access)
	config.Events = book.note
	config.PublicKey = func(ssh.ConnMetadata, ssh.PublicKey) (*Access, error) { return access, nil }
	s := newServer(t, config)
	first := mustConnect(t, s)
	if _, err := sftp(first); err != nil {
		t.Fatal(err)
	}
	second, err := connectAs(s, "v", ssh.PublicKeys(key))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := sftp(second); err != nil {
		t.Fatal(err)
	}
	fingerprint := ssh.FingerprintSHA256(key.PublicKey())
	all := s.Logins()
	if len(all) != 2 || all[0].User != "u" || all[0].Method != "password" || all[0].Key != "" ||
		all[1].User != "v" || all[1].Method != "publickey" || all[1].Key != fingerprint ||
		all[1].Sessions != 1 || all[0].ID == all[1].ID || all[1].Since.IsZero() {
		t.Errorf("logins %+v", all)
	}
	if in := book.of(server.LoggedIn); len(in) != 2 || in[0].Method != "password" ||
		in[1].Key != fingerprint {
		t.Errorf("logged in: %+v", in)
	}
	if n := s.EndLogins(func(l Login) bool { return l.User == "u" }); n != 1 {
		t.Errorf("%d logins are ended", n)
	}
	first.Wait()
	if _, err := sftp(second); err != nil {
		t.Errorf("the other connection has ended, too: %v", err)
	}
	s.Close() // and with it what its sessions have to say
	if failed := book.of(server.SessionFailed); len(failed) != 1 || failed[0].User != "u" ||
		!errors.Is(failed[0].Err, errEnded) {
		t.Errorf("failed: %+v", failed)
	}
}

// TestEndLoginWhileFilesAreOpened: whoever may no longer log in is found even while their files are
// being opened, which may take long.
func TestEndLoginWhileFilesAreOpened(t *testing.T) {
	opening, opened := make(chan struct{}), make(chan struct{})
	s := newServer(t, onlyPassword(&Access{Open: func() (server.FS, server.Policy, error) {
		close(opening)
		<-opened
		return memfs.New(0), server.Policy{}, nil
	}}))
	client := mustConnect(t, s)
	defer close(opened)
	<-opening
	if n := s.EndLogins(func(l Login) bool { return l.User == "u" }); n != 1 {
		t.Fatalf("%d logins are ended", n)
	}
	client.Wait()
}
