package clients_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRekeying has clients exchange keys again and again while they put and get a file.
func TestRekeying(t *testing.T) {
	rekey(t, 1<<20, map[string]*client{"OpenSSH scp": rekeyingSCP("-s"),
		"OpenSSH scp -O": rekeyingSCP("-O"), "asyncssh": python("asyncssh")})
	// The others do not exchange keys before what is in flight has arrived.
	rekey(t, 256<<10, map[string]*client{"paramiko": python("paramiko")})
}

// rekey has clients exchange keys after each so many bytes, of 64 times as many.
func rekey(t *testing.T, each int, clients map[string]*client) {
	rekeying := func(t *testing.T) *site {
		s := newSite(t)
		s.env = []string{fmt.Sprint("REKEY_BYTES=", each)} // for the programs in testdata
		return s
	}
	withClients(t, clients, rekeying, func(t *testing.T, c *client, s *site) {
		data := s.random(filepath.Join(s.local, "file"), 64*each)
		c.put(s, filepath.Join(s.local, "file"), "file")
		s.expect(filepath.Join(s.served, "file"), data)
		if err := os.Remove(filepath.Join(s.local, "file")); err != nil {
			t.Fatal(err)
		}
		c.get(s, "file", filepath.Join(s.local, "file"))
		s.expect(filepath.Join(s.local, "file"), data)
	})
}

// rekeyingSCP is scp with a key exchange after each MiB, which it reports.
func rekeyingSCP(protocol string) *client {
	scp := func(s *site, args ...string) {
		s.t.Helper()
		out := s.run("scp", slices.Concat(s.sshOptions(), []string{"-v", "-o", "LogLevel=DEBUG1",
			"-o", "RekeyLimit=1M", protocol, "-P", s.port}, args)...)
		if n := strings.Count(out, "SSH2_MSG_NEWKEYS received"); n < 20 {
			s.t.Errorf("keys were exchanged %d times", n)
		}
	}
	return &client{
		programs: []string{"scp"},
		put:      func(s *site, from, to string) { scp(s, from, "u@127.0.0.1:"+to) },
		get:      func(s *site, from, to string) { scp(s, "u@127.0.0.1:"+from, to) },
	}
}
