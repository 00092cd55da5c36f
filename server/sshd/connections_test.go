package sshd_test

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// linkConn is an end of a link as a connection. Deadlines are ignored: synctest detects a wait for
// nothing anyway.
type linkConn struct{ *sftptest.End }

func (linkConn) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 40000}
}
func (linkConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 40000}
}
func (linkConn) SetDeadline(time.Time) error      { return nil }
func (linkConn) SetReadDeadline(time.Time) error  { return nil }
func (linkConn) SetWriteDeadline(time.Time) error { return nil }

// TestManyConnections has a thousand clients connect, list and leave. The synctest bubble ends only
// when no goroutine is left, and its clock, which stands still while anything computes, shows
// whether anything waited for a timeout.
func TestManyConnections(t *testing.T) { synctest.Test(t, testManyConnections) }

func testManyConnections(t *testing.T) {
	connections := 1000
	if testing.Short() {
		connections = 50
	}
	backend := memfs.New(0)
	if err := backend.Mkdir(t.Context(), "/directory", wire.Attrs{}); err != nil {
		t.Fatal(err)
	}
	keys, err := sshd.LoadHostKeys(filepath.Join(t.TempDir(), "host_ed25519"))
	if err != nil {
		t.Fatal(err)
	}
	key := keys[0]
	// Not the usual 100: the server gives a place back a moment after its client has left.
	sessions := sshd.NewSessionLimit(connections)
	server, err := sshd.New(sshd.Config{
		HostKeys: keys,
		PublicKey: func(ssh.ConnMetadata, ssh.PublicKey) (*sshd.Access, error) {
			return &sshd.Access{FS: backend, Sessions: sessions}, nil
		},
		Exempt: func(netip.Addr) bool { return true }, // all have one address
	})
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ClientConfig{
		User: "somebody", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: ssh.FixedHostKey(key.PublicKey()),
		// The cheapest there is: this test is about numbers, not key sizes.
		Config: ssh.Config{KeyExchanges: []string{ssh.KeyExchangeCurve25519},
			Ciphers: []string{ssh.CipherAES128GCM}},
	}
	began := time.Now()
	var serving, visiting sync.WaitGroup
	places := make(chan struct{}, 100)
	for range connections {
		visiting.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			ours, theirs := sftptest.NewLink(sftptest.LinkConfig{})
			serving.Go(func() { server.ServeConn(linkConn{theirs}) })
			if err := visit(linkConn{ours}, config); err != nil {
				t.Error(err)
			}
		})
	}
	visiting.Wait()
	serving.Wait()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// visit logs in, lists a directory and leaves.
func visit(conn net.Conn, config *ssh.ClientConfig) error {
	defer conn.Close()
	secure, channels, requests, err := ssh.NewClientConn(conn, "pipe", config)
	if err != nil {
		return err
	}
	connection := ssh.NewClient(secure, channels, requests)
	defer connection.Close()
	client, err := usftp.NewClient(connection)
	if err != nil {
		return err
	}
	names, err := client.ReadDir("/")
	if err != nil {
		return err
	}
	if len(names) != 1 {
		return fmt.Errorf("%d names instead of one", len(names))
	}
	return client.Close()
}
