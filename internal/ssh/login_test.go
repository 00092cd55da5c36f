package ssh_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/usftp/usftp/internal/ssh"
)

// roundTrip sends data through an echo and checks what comes back, and the end.
func roundTrip(t *testing.T, c *ssh.Conn, data []byte) {
	t.Helper()
	ch := session(t, c, "echo")
	go func() {
		ch.Write(data)
		ch.CloseWrite()
	}()
	got, err := io.ReadAll(ch)
	must(t, err)
	if !bytes.Equal(got, data) {
		t.Fatalf("%d bytes came back that differ from the %d sent", len(got), len(data))
	}
	<-ch.Done()
	if e := ch.ExitStatus(); !e.Known || e.Status != 7 {
		t.Errorf("exit status %+v", e)
	}
	words, _ := io.ReadAll(ch.Stderr())
	if string(words) != "done" {
		t.Errorf("standard error says %q", words)
	}
}

// TestEveryAlgorithm runs a session with each key exchange method, each cipher with each MAC, and
// each type of key.
func TestEveryAlgorithm(t *testing.T) {
	user := signer(t, "ed25519")
	all := ssh.Supported()
	run := func(name string, change func(*ssh.ClientConfig, *ssh.ServerConfig)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
			change(cc, sc)
			client, server := connect(t, cc, sc)
			go echo(server)
			if !client.Strict() || !server.Strict() {
				t.Error("key exchange is not strict")
			}
			roundTrip(t, client, pattern(300_000))
			must(t, client.Rekey())
			roundTrip(t, client, pattern(100_000))
			must(t, server.Rekey())
			roundTrip(t, client, pattern(100_000))
			if client.Exchanges() < 3 {
				t.Errorf("keys were exchanged %d times", client.Exchanges())
			}
		})
	}
	for _, kex := range all.KeyExchanges {
		run("kex/"+kex, func(cc *ssh.ClientConfig, _ *ssh.ServerConfig) {
			cc.Algorithms.KeyExchanges = []string{kex}
		})
	}
	for _, cipher := range all.Ciphers {
		for _, mac := range all.MACs {
			run("cipher/"+cipher+"/"+mac, func(cc *ssh.ClientConfig, _ *ssh.ServerConfig) {
				cc.Algorithms.Ciphers, cc.Algorithms.MACs = []string{cipher}, []string{mac}
			})
		}
	}
}
