//go:build unix

package dial

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// TestKeyInAPipe: a key that can be read only once, as `-i <(program)` gives it, serves for further
// logins, also to other hosts.
func TestKeyInAPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, pipe := filepath.Join(dir, "key"), filepath.Join(dir, "pipe")
	srv := newTestServer(t)
	takesKeys(srv, writeKey(t, key, ""))
	text, err := os.ReadFile(key)
	if err == nil {
		err = syscall.Mkfifo(pipe, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() { written <- os.WriteFile(pipe, text, 0) }()
	config := Config{Identities: []string{pipe}, KeyPipes: new(KeyPipes)}
	for range 2 {
		c := config
		dialTwice(t, srv.dialer(t, &c))
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestKeyInAPipeWithoutAWriter: a program that writes no key must not keep a login for ever.
func TestKeyInAPipeWithoutAWriter(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() { // lets the reader go
		w, err := os.OpenFile(pipe, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
	}()
	srv := newTestServer(t)
	takesKeys(srv, writeKey(t, filepath.Join(t.TempDir(), "key"), ""))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := srv.dialer(t, &Config{Identities: []string{pipe}}).Dial(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a deadline: %v", err)
	}
	d := srv.dialer(t, &Config{Identities: []string{pipe}, Options: []string{"ConnectTimeout=1"}})
	_, err = d.Dial(t.Context())
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a ConnectTimeout: %v", err)
	}
}

// TestKeyInAPipeOfSeveral: logins at once, and those that were given up while the program had not
// written yet, take the key from no other.
func TestKeyInAPipeOfSeveral(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	k := &keyring{ctx: t.Context(), asker: &asker{pipes: new(KeyPipes)}}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 8 {
		if _, _, err := (&keyring{ctx: gone, asker: k.asker}).readKey(pipe); err == nil {
			t.Fatal("a login that was given up has a key")
		}
	}
	read := make(chan string)
	for range 2 {
		go func() {
			text, _, err := k.readKey(pipe)
			read <- fmt.Sprint(string(text), err)
		}()
	}
	if err := os.WriteFile(pipe, []byte("key"), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if text := <-read; text != fmt.Sprint("key", nil) {
			t.Errorf("a login has read %q", text)
		}
	}
}

// TestCertificateInAPipe: a certificate from `-o CertificateFile=<(program)` serves for further
// logins, too, and a program that writes none does not keep a login for ever.
func TestCertificateInAPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, pipe := filepath.Join(dir, "key"), filepath.Join(dir, "pipe")
	writeKey(t, key, "")
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	cert := &ssh.Certificate{Key: signer.PublicKey(), CertType: ssh.UserCert,
		ValidPrincipals: []string{"me"}, ValidBefore: ssh.CertTimeInfinity}
	err = cert.SignCert(rand.Reader, signer)
	if err == nil {
		err = syscall.Mkfifo(pipe, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	srv := newTestServer(t)
	takesKeys(srv, cert)
	config := Config{Identities: []string{key}, Options: []string{"CertificateFile=" + pipe}}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	d := srv.dialer(t, &config)
	if _, err := d.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a writer: %v", err)
	}
	written := make(chan error)
	go func() { written <- os.WriteFile(pipe, ssh.MarshalAuthorizedKey(cert), 0) }()
	dialTwice(t, d)
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestKnownHostsInAPipe: so may be the known hosts, `-o UserKnownHostsFile=<(program)`.
func TestKnownHostsInAPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	srv := newTestServer(t)
	srv.NoClientAuth = true
	dialer := func(more ...string) *Dialer {
		return srv.dialer(t, &Config{Options: append(more, "UserKnownHostsFile="+pipe)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	d := dialer()
	if _, err := d.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a writer: %v", err)
	}
	written := make(chan error)
	line := []byte("h " + authorizedLine(srv.key.PublicKey()) + "\n")
	go func() { written <- os.WriteFile(pipe, line, 0) }()
	dialTwice(t, d)
	if err := <-written; err != nil {
		t.Error(err)
	}
	// Nothing is written to a pipe.
	var log bytes.Buffer
	a := newAsker(&Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), KeyPipes: d.asker.pipes})
	s := &settings{alias: "new", host: "new", port: 22, strict: "accept-new", userKnown: []string{pipe}}
	h, err := newHostKeyChecker(t.Context(), s, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.check(t.Context(), remoteAddr, srv.key.PublicKey()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "Failed to add the host 'new'") {
		t.Errorf("it says: %s", log.String())
	}
	_, err = dialer("ConnectTimeout=1").Dial(t.Context())
	want := "me@h: known hosts: " + pipe + ": no answer within 1s while reading it"
	if err == nil || err.Error() != want {
		t.Errorf("with a ConnectTimeout: %v", err)
	}
	if err := os.WriteFile(pipe, line, 0); err != nil { // lets the reader go
		t.Error(err)
	}
}
