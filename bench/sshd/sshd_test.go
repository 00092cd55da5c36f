package sshd

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/usftp/usftp/bench/pipes"
	"github.com/usftp/usftp/internal/testenv"
)

func start(t *testing.T, config Config) *Server {
	t.Helper()
	server, err := Start(config)
	if errors.Is(err, ErrNoServer) || errors.Is(err, pipes.ErrNoServer) {
		testenv.Unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func TestBothClientsLogIn(t *testing.T) {
	server := start(t, Config{Cipher: "aes128-gcm@openssh.com"})
	ssh := exec.Command("ssh", "-v", "-F", server.ClientConfig, "host", "echo", "hello")
	var log strings.Builder
	ssh.Stderr = &log
	out, err := ssh.Output()
	if err != nil || string(out) != "hello\n" {
		t.Errorf("ssh: %q (%v)\n%s", out, err, log.String())
	}
	if !strings.Contains(log.String(), "cipher: aes128-gcm@openssh.com") {
		t.Errorf("another cipher than the one offered:\n%s", log.String())
	}
	client, err := server.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := session.Output("echo hello"); err != nil || string(out) != "hello\n" {
		t.Errorf("x/crypto/ssh: %q (%v)", out, err)
	}
}

// TestProcessorCountsSessions has a session compute for longer than the account's unit of 10 ms.
func TestProcessorCountsSessions(t *testing.T) {
	server := start(t, Config{})
	before, err := server.Processor()
	if err != nil {
		t.Fatal(err)
	}
	const compute = `awk 'BEGIN { for (i = 0; i < 5000000; i++) s += i; exit s == 0 }'`
	if out, err := exec.Command("ssh", "-F", server.ClientConfig, "host",
		compute).CombinedOutput(); err != nil {
		t.Fatalf("ssh: %v: %s", err, out)
	}
	after, err := server.Processor()
	if err != nil {
		t.Fatal(err)
	}
	if spent := (after - before).Seconds(); spent < 0.05 || spent > 60 {
		t.Errorf("a session that computes took %.3f s of processor", spent)
	}
}

// TestProcessorCountsWhatOutlivesItsSession: sshd's process for a connection ends as soon as the
// client goes, without having waited for the command, which keeps running.
func TestProcessorCountsWhatOutlivesItsSession(t *testing.T) {
	server := start(t, Config{})
	before, err := server.Processor()
	if err != nil {
		t.Fatal(err)
	}
	client, err := server.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := session.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	const compute = `echo x; exec awk 'BEGIN { for (i = 0; i < 100000000; i++) s += i; exit s == 0 }'`
	if err := session.Start(compute); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	client.Close()
	after, err := server.Processor()
	if err != nil {
		t.Fatal(err)
	}
	if spent := (after - before).Seconds(); spent < 0.3 {
		t.Errorf("%.3f s of processor were counted, of a command that takes a second", spent)
	}
}
