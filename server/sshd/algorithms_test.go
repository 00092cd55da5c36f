package sshd

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// offered returns the lists in the server's KEXINIT (RFC 4253, section 7.1).
func offered(t *testing.T, s *Server) [][]string {
	t.Helper()
	client, theirs := net.Pipe()
	go s.ServeConn(address{theirs})
	ours := newEager(client)
	defer ours.Close()
	ours.SetDeadline(time.Now().Add(time.Minute))
	ours.Write([]byte("SSH-2.0-test\r\n"))
	var heard []byte
	buf := make([]byte, 4096)
	for {
		n, err := ours.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, buf[:n]...)
		if packet, ok := firstPacket(heard); ok {
			r := wire.NewReader(packet[17:])
			var lists [][]string
			for range 8 {
				lists = append(lists, strings.Split(r.String(), ","))
			}
			if r.Err() != nil {
				t.Fatal(r.Err())
			}
			return lists
		}
	}
}

// firstPacket returns the payload of the packet after the version line, once it is complete.
func firstPacket(heard []byte) (payload []byte, ok bool) {
	_, rest, found := bytes.Cut(heard, []byte("\n"))
	if !found || len(rest) < 5 {
		return nil, false
	}
	length, padding := binary.BigEndian.Uint32(rest), uint32(rest[4])
	if uint32(len(rest)) < 4+length {
		return nil, false
	}
	return rest[5 : 4+length-padding], true
}

func rsaKey(t *testing.T) ssh.Signer {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// limited is a key that signs with one algorithm only.
func limited(t *testing.T, key ssh.Signer, algorithm string) ssh.Signer {
	t.Helper()
	signer, err := ssh.NewSignerWithAlgorithms(key.(ssh.AlgorithmSigner), []string{algorithm})
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// TestOfferedAlgorithms pins what is offered: the defaults of OpenSSH 10's sshd that are
// implemented, and no more.
func TestOfferedAlgorithms(t *testing.T) {
	standard := [][]string{
		{"mlkem768x25519-sha256", "curve25519-sha256", "curve25519-sha256@libssh.org",
			"ecdh-sha2-nistp256", "ecdh-sha2-nistp384", "ecdh-sha2-nistp521",
			"kex-strict-s-v00@openssh.com"},
		{"rsa-sha2-512", "rsa-sha2-256"},
		{"chacha20-poly1305@openssh.com", "aes128-gcm@openssh.com", "aes256-gcm@openssh.com",
			"aes128-ctr", "aes192-ctr", "aes256-ctr"},
		{"hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256",
			"hmac-sha2-512"},
	}
	with := func(kind int, more ...string) [][]string {
		lists := slices.Clone(standard)
		lists[kind] = slices.Concat(lists[kind], more)
		return lists
	}
	kex := with(0)
	kex[0] = slices.Insert(slices.Clone(kex[0]), 6, "diffie-hellman-group16-sha512",
		"diffie-hellman-group14-sha256")
	key := rsaKey(t)
	for name, test := range map[string]struct {
		legacy []string
		want   [][]string
	}{
		"default": {nil, standard},
		"key exchanges": {[]string{"diffie-hellman-group14-sha256",
			"diffie-hellman-group16-sha512"},
			kex},
	} {
		t.Run(name, func(t *testing.T) {
			config := onlyPassword(&Access{FS: memfs.New(0)})
			config.HostKeys = []ssh.Signer{key}
			config.LegacyAlgorithms = test.legacy
			got := offered(t, newServer(t, config))
			want := [][]string{test.want[0], test.want[1], test.want[2], test.want[2],
				test.want[3], test.want[3], {"none"}, {"none"}}
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("list %d:\n got %s\nwant %s", i, got[i], want[i])
				}
			}
		})
	}
	config := onlyPassword(&Access{FS: memfs.New(0)})
	// SHA-1 and CBC are gone, and asking for them is an error that says so.
	for _, name := range []string{"rot13", "diffie-hellman-group14-sha1", "aes128-cbc", "hmac-sha1",
		"ssh-rsa"} {
		config.LegacyAlgorithms = []string{name}
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("an algorithm that is not known: %v", err)
		}
	}
	config.LegacyAlgorithms, config.Ciphers = nil, []string{"aes128-gcm@openssh.com", "aes128-cbc"}
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "aes128-cbc") {
		t.Errorf("a cipher that is not known: %v", err)
	}
	config.Ciphers = nil
	config.LegacyAlgorithms = LegacyAlgorithms()
	if got := offered(t, newServer(t, config)); !slices.Contains(got[0],
		"diffie-hellman-group-exchange-sha256") {
		t.Errorf("not all are offered: %s", got)
	}
}

// TestDocumentedAlgorithms: docs/service.md lists what a client sees in the server's KEXINIT, apart
// from the marker of strict key exchange.
func TestDocumentedAlgorithms(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "service.md"))
	if err != nil {
		t.Fatal(err)
	}
	lists := offered(t, newServer(t, onlyPassword(&Access{FS: memfs.New(0)})))
	for row, list := range map[string]int{"key exchange": 0, "cipher": 2, "MAC": 4} {
		_, after, _ := strings.Cut(string(page), "| "+row+" | ")
		line, _, _ := strings.Cut(after, " |\n")
		var names []string
		for name := range strings.SplitSeq(line, ", ") {
			name, _, _ = strings.Cut(name, " (")
			if strings.HasPrefix(name, "-") { // -nistp384
				last := names[len(names)-1]
				name = last[:strings.LastIndex(last, "-")] + name
			}
			names = append(names, name)
		}
		got := slices.DeleteFunc(lists[list], func(name string) bool {
			return strings.HasPrefix(name, "kex-strict-")
		})
		if !slices.Equal(got, names) {
			t.Errorf("%s: offered %q, documented %q", row, got, names)
		}
	}
}

// TestOfferedSignatures: OpenSSH's client learns which signatures a user may make.
func TestOfferedSignatures(t *testing.T) {
	testenv.Program(t, "ssh")
	dir := makeKeys(t, "key")
	config := onlyPassword(&Access{FS: memfs.New(0)})
	config.PublicKey = func(ssh.ConnMetadata, ssh.PublicKey) (*Access, error) {
		return nil, errUnknownKey
	}
	list := regexp.MustCompile(`server-sig-algs=<([^>]*)>`)
	want := "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521," +
		"sk-ssh-ed25519@openssh.com,sk-ecdsa-sha2-nistp256@openssh.com,rsa-sha2-512,rsa-sha2-256"
	for _, legacy := range [][]string{nil, LegacyAlgorithms()} {
		config.LegacyAlgorithms = legacy
		s := newServer(t, config)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- s.Serve(l) }()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		out, _ := exec.Command("ssh", "-v", "-F", "none", "-p", port, "-i",
			filepath.Join(dir, "key"), "-o", "BatchMode=yes", "-o", "IdentityAgent=none", "-o",
			"StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
			"127.0.0.1").CombinedOutput()
		found := list.FindSubmatch(out)
		if found == nil || string(found[1]) != want {
			t.Errorf("with %q:\n got %s\nwant %s\n%s", legacy, found, want, out)
		}
		s.Close()
		if err := <-done; !errors.Is(err, ErrServerClosed) {
			t.Error(err)
		}
	}
}

// TestSignaturesOfUsers: an RSA key signs with SHA-2, never with SHA-1.
func TestSignaturesOfUsers(t *testing.T) {
	key := rsaKey(t)
	for _, test := range []struct {
		algorithm string
		want      bool
	}{
		{ssh.KeyAlgoRSASHA512, true},
		{ssh.KeyAlgoRSASHA256, true},
		{ssh.KeyAlgoRSA, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			access := &Access{FS: memfs.New(0)}
			s := newServer(t, Config{LegacyAlgorithms: LegacyAlgorithms(),
				PublicKey: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*Access, error) {
					if !bytes.Equal(k.Marshal(), key.PublicKey().Marshal()) {
						return nil, errUnknownKey
					}
					return access, nil
				}})
			client, err := connect(s, ssh.PublicKeys(limited(t, key, test.algorithm)))
			if (err == nil) != test.want {
				t.Errorf("%s: %v", test.algorithm, err)
			}
			if err == nil {
				client.Close()
			}
		})
	}
}

// TestSignaturesOfAuthorities: a certificate is accepted only if OpenSSH would accept its signature
// algorithm.
func TestSignaturesOfAuthorities(t *testing.T) {
	authority, user := rsaKey(t), rsaKey(t)
	for algorithm, want := range map[string]bool{
		ssh.KeyAlgoRSASHA512: true, ssh.KeyAlgoRSASHA256: true, ssh.KeyAlgoRSA: false,
	} {
		certificate := &ssh.Certificate{Key: user.PublicKey(), CertType: ssh.UserCert,
			ValidPrincipals: []string{"u"}, ValidBefore: ssh.CertTimeInfinity}
		if err := certificate.SignCert(rand.Reader, limited(t, authority, algorithm)); err != nil {
			t.Fatal(err)
		}
		a := &Authorities{Keys: []ssh.PublicKey{authority.PublicKey()}}
		err := a.Check("u", certificate, addressOf(nil))
		if (err == nil) != want {
			t.Errorf("signed with %s: %v", algorithm, err)
		}
	}
}
