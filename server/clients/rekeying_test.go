package clients_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRekeying has clients exchange keys after each MiB while they put and get 64 MiB.
func TestRekeying(t *testing.T) {
	const size = 64 << 20
	rekeying := func(t *testing.T) *site {
		s := newSite(t)
		s.env = []string{"REKEY_BYTES=1048576"} // for the programs in testdata
		return s
	}
	withClients(t, map[string]*client{
		"OpenSSH scp":    rekeyingSCP("-s"),
		"OpenSSH scp -O": rekeyingSCP("-O"),
		"paramiko":       python("paramiko"),
		"asyncssh":       python("asyncssh"),
	}, rekeying, func(t *testing.T, c *client, s *site) {
		data := s.random(filepath.Join(s.local, "file"), size)
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
