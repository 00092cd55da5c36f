//go:build unix

package dial

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestUnreadableKnownHosts: a file that may not be opened, such as an administrator's, keeps nobody
// from a host that another file knows, and lets no key in that nobody has looked at.
func TestUnreadableKnownHosts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "loop") // root may open any other
	if err := os.Symlink(file, file); err != nil {
		t.Fatal(err)
	}
	key := newSigner(t).PublicKey()
	var log bytes.Buffer
	p := &script{answers: []string{"yes"}}
	a := newAsker(&Config{Prompter: p, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, c := range []struct {
		text, strict string
		want         error
	}{
		{"h " + authorizedLine(key) + "\n", "yes", nil},
		{"", "accept-new", syscall.ELOOP},
		{"", "no", syscall.ELOOP},
		{"", "ask", nil},
	} {
		known := writeFile(t, filepath.Join(t.TempDir(), "known"), c.text)
		s := &settings{alias: "h", host: "h", port: 22, strict: c.strict,
			userKnown: []string{known}, globalKnown: []string{file}}
		h, err := newHostKeyChecker(t.Context(), s, a)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.check(t.Context(), remoteAddr, key); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", c.strict, err, c.want)
		}
	}
	if warning := "known hosts: " + file + ": too many levels of symbolic links"; strings.Count(
		log.String(), warning) != 1 {
		t.Errorf("%s\nnot once: %s", log.String(), warning)
	}
}

// TestKnownHostsCommand: it is run as ssh runs it, and what it prints is believed as a file is.
func TestKnownHostsCommand(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{NoKnownHosts: true,
		HostKeyTypes: []string{"ed25519", "ecdsa"}})
	dir := t.TempDir()
	public, err := os.ReadFile(srv.HostKeys[1] + ".pub")
	first, err2 := os.ReadFile(srv.HostKeys[0] + ".pub")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("[%s]:%d", srv.Host, srv.Port)
	known, log := writeFile(t, dir+"/known", name+" "+string(public)), dir+"/log"
	script := writeFile(t, dir+"/script", "#!/bin/sh\necho \"$@\" >> "+log+"\ncat "+known+"\n")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	c := &Config{ConfigFile: srv.ConfigFile, Options: []string{"StrictHostKeyChecking=yes",
		"KnownHostsCommand=" + script + " %I %H %t %f %K %u '%%a  b' %n"}}
	connect(t, Target{Host: srv.Alias}, c).Close()
	atKey := func() string {
		text, _ := os.ReadFile(log)
		_, found, _ := strings.Cut(string(text), "HOSTNAME")
		return found
	}
	ours := atKey()
	os.Remove(log)
	if out, err := exec.Command(opensshd.Find(t, "ssh"), "-F", srv.ConfigFile, "-o", c.Options[0],
		"-o", c.Options[1], "-o", "HostKeyAlgorithms=ecdsa-sha2-nistp256", srv.Alias, "true").CombinedOutput(); err != nil {
		t.Fatalf("ssh: %v: %s", err, out)
	}
	if theirs := atKey(); ours != theirs || ours == "" {
		t.Errorf("it was run with %q, and by ssh with %q", ours, theirs)
	}
	for text, want := range map[string]string{
		srv.Host + " " + string(first):                               "is not known",
		"@revoked * " + string(public) + name + " " + string(public): "is revoked",
		name + " " + authorizedLine(newSigner(t).PublicKey()):        "has changed",
		"": "is not known",
	} {
		writeFile(t, known, text)
		if err := dialError(t, Target{Host: srv.Alias}, c); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want that it %s", err, want)
		}
	}
	os.Remove(known)
	if err := dialError(t, Target{Host: srv.Alias}, c); !strings.Contains(err.Error(),
		"KnownHostsCommand "+script+" failed: exit status 1: cat: ") {
		t.Errorf("a command that fails: %v", err)
	}
}

// TestRevokedHostKeys: no host is let through whose key is in the file, in either of its forms, nor
// any if the file cannot be read.
func TestRevokedHostKeys(t *testing.T) {
	dir := t.TempDir()
	keygen := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(opensshd.Find(t, "ssh-keygen"), args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	ca, other := opensshd.Keygen(t, dir+"/ca")+".pub", opensshd.Keygen(t, dir+"/other")+".pub"
	plain := opensshd.Start(t, opensshd.Options{})
	keygen("-q", "-s", dir+"/ca", "-I", "it", "-h", "-n", "127.0.0.1", "-z", "7", plain.HostKeys[0]+".pub")
	certified := opensshd.Start(t, opensshd.Options{Config: []string{"HostKey " + plain.HostKeys[0],
		"HostCertificate " + plain.HostKeys[0] + "-cert.pub"}})
	authority, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, certified.KnownHosts, "@cert-authority * "+string(authority))
	serial := writeFile(t, dir+"/serial", "serial: 7\n")
	for list, args := range map[string][]string{"krl": {plain.HostKeys[0] + ".pub"}, "others": {other},
		"serials": {"-s", ca, serial}} {
		keygen(append([]string{"-k", "-f", dir + "/" + list}, args...)...)
	}
	for _, c := range []struct {
		srv  *opensshd.Server
		file string
		says string // "" if the host is let through
	}{
		{plain, plain.HostKeys[0] + ".pub", ".pub:1 names its ED25519 key"},
		{plain, plain.HostKeys[0] + "-cert.pub", "-cert.pub:1 names its ED25519 key"},
		{plain, other, ""},
		{plain, os.DevNull, ""},
		{plain, dir + "/krl", dir + "/krl names its ED25519 key"},
		{plain, dir + "/others", ""},
		{plain, dir + "/missing", "RevokedHostKeys: open "},
		{plain, serial, "line 1 holds no key"},
		{certified, ca, "ca.pub:1 names its ED25519 key"},
		{certified, dir + "/serials", "serials names its ED25519 key"},
		{certified, dir + "/krl", "krl names its ED25519 key"},
		{certified, dir + "/others", ""},
	} {
		config := &Config{ConfigFile: c.srv.ConfigFile, Options: []string{"RevokedHostKeys=" + c.file}}
		ssh := exec.Command(opensshd.Find(t, "ssh"), "-F", c.srv.ConfigFile, "-o", config.Options[0],
			c.srv.Alias, "true")
		if out, err := ssh.CombinedOutput(); (err == nil) != (c.says == "") {
			t.Errorf("%s: ssh: %v: %s", c.file, err, out)
		}
		if c.says == "" {
			connect(t, Target{Host: c.srv.Alias}, config).Close()
		} else if err := dialError(t, Target{Host: c.srv.Alias}, config); !strings.Contains(err.Error(),
			c.says) {
			t.Errorf("%s: %v", c.file, err)
		}
	}
	pipe, written := dir+"/pipe", make(chan error)
	text, err := os.ReadFile(plain.HostKeys[0] + ".pub")
	if err == nil {
		err = syscall.Mkfifo(pipe, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { written <- os.WriteFile(pipe, text, 0) }()
	config := &Config{ConfigFile: plain.ConfigFile, Options: []string{"RevokedHostKeys=" + pipe},
		KeyPipes: new(KeyPipes)}
	for range 2 {
		if err := dialError(t, Target{Host: plain.Alias}, config); !strings.Contains(err.Error(),
			"pipe:1 names") {
			t.Errorf("a pipe: %v", err)
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
