package sshd_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/server/sshd"
)

// A server for one user, with a key and a directory.
func Example() {
	files, err := osfs.New("/srv/files")
	if err != nil {
		log.Fatal(err)
	}
	keys, err := sshd.ReadAuthorizedKeys("/etc/usftp/authorized_keys")
	if err != nil {
		log.Fatal(err)
	}
	for _, warning := range keys.Warnings {
		slog.Warn(warning)
	}
	users, err := sshd.NewDirectory(sshd.Accounts{Users: []sshd.User{{Name: "alice", FS: files,
		Keys: keys}}})
	if err != nil {
		log.Fatal(err)
	}
	hostKeys, err := sshd.LoadHostKeys("/etc/usftp/host_ed25519")
	if err != nil {
		log.Fatal(err)
	}
	server, err := sshd.New(sshd.Config{HostKeys: hostKeys, PublicKey: users.PublicKey,
		Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	slog.Info("host key", "fingerprint", ssh.FingerprintSHA256(server.HostKeys()[0]))
	listener, err := net.Listen("tcp", ":2022")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}

// Config.PublicKey may find keys anywhere, and give each login its own directory and limits.
func ExampleConfig() {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		log.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		log.Fatal(err)
	}
	line := ssh.MarshalAuthorizedKey(signer.PublicKey())

	keys := sshd.ParseAuthorizedKeys("alice's keys", line)
	access := &sshd.Access{FS: memfs.New(1 << 20), Sessions: sshd.NewSessionLimit(10),
		Bandwidth: sshd.NewRateLimit(sshd.EachWay(10 << 20))}
	server, err := sshd.New(sshd.Config{
		PublicKey: func(conn ssh.ConnMetadata, key ssh.PublicKey) (*sshd.Access, error) {
			address, err := netip.ParseAddrPort(conn.RemoteAddr().String())
			if err != nil {
				return nil, err
			}
			if err := keys.Check(conn.User(), key, address.Addr()); err != nil {
				return nil, err
			}
			return access, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)

	conn, err := ssh.Dial("tcp", listener.Addr().String(), &ssh.ClientConfig{
		User:            "alice",
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.FixedHostKey(server.HostKeys()[0]),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client, err := usftp.NewClient(conn)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(client.WriteFile("hello", []byte("hello"), 0o644))
	// Output: <nil>
}

// A file of passwords has a line for each user.
func ExampleParsePasswords() {
	line := "alice:" + sshd.HashPassword("correct horse")
	passwords, err := sshd.ParsePasswords("passwords", []byte(line))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	fmt.Println(passwords.Check(ctx, "alice", "correct horse"))
	fmt.Println(passwords.Check(ctx, "alice", "battery staple") != nil)
	// Output:
	// <nil>
	// true
}
