package sshd_test

import (
	"log"
	"log/slog"
	"net"

	"golang.org/x/crypto/ssh"

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
