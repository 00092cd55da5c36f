package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

const zlib = "zlib@openssh.com"

// logs are lines as in a log, and now and then what cannot be compressed.
func logs(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "2026-01-31T12:%02d:%02d host%d sshd[%d]: Accepted publickey for ann\n",
			i/60%60, i%60, rng.IntN(9), rng.IntN(40000))
		if i%5000 == 0 {
			for range 9000 {
				b.WriteByte(byte(rng.Uint32()))
			}
		}
	}
	return b.Bytes()[:n]
}

// echoed sends data to an echo and compares what comes back.
func echoed(t *testing.T, c *ssh.Conn, data []byte) {
	t.Helper()
	ch := session(t, c, "echo")
	go func() {
		ch.Write(data)
		ch.CloseWrite()
	}()
	got, err := io.ReadAll(ch)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	ch.Close()
}

// TestCompression: what can be compressed is, in both directions, under each kind of cipher and
// with new keys in between; what cannot grows by little.
func TestCompression(t *testing.T) {
	for _, cipher := range []string{"aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com",
		"aes256-ctr"} {
		t.Run(cipher, func(t *testing.T) {
			key := signer(t, "ed25519")
			cc, sc := clientConfig(key), serverConfig(t, key.PublicKey())
			cc.Algorithms = ssh.Algorithms{Compress: true, Ciphers: []string{cipher}}
			sc.Algorithms.Compress = true
			cc.RekeyBytes = 100_000
			var wire *counter
			client, server, err, serverErr := tryConnect(cc, sc, func(c net.Conn) net.Conn {
				wire = &counter{Conn: c}
				return wire
			})
			if err != nil || serverErr != nil {
				t.Fatal(err, serverErr)
			}
			defer end(client, server)
			go echo(server)
			if got := client.Algorithms().Compressions; got != [2]string{zlib, zlib} {
				t.Fatalf("the compression is %q", got)
			}
			data := logs(4 << 20)
			_, before := wire.counts()
			echoed(t, client, data)
			if _, after := wire.counts(); after-before > len(data)/3 {
				t.Errorf("%d bytes took %d", len(data), after-before)
			}
			if client.Exchanges() < 4 {
				t.Errorf("keys were exchanged %d times", client.Exchanges())
			}
			random := make([]byte, 4<<20)
			rand.NewChaCha8([32]byte{}).Read(random)
			_, before = wire.counts()
			echoed(t, client, random)
			if _, after := wire.counts(); after-before > len(random)*103/100 { // exchanges, too
				t.Errorf("%d random bytes took %d", len(random), after-before)
			}
			echoed(t, client, []byte{1})
		})
	}
}

// TestCompressionIsAgreedOn: both sides must want it, and it is never the kind that begins before
// the login.
func TestCompressionIsAgreedOn(t *testing.T) {
	key := signer(t, "ed25519")
	for _, wants := range [][2]bool{{true, false}, {false, true}, {false, false}, {true, true}} {
		cc, sc := clientConfig(key), serverConfig(t, key.PublicKey())
		cc.Algorithms.Compress, sc.Algorithms.Compress = wants[0], wants[1]
		client, server := connect(t, cc, sc)
		go echo(server)
		want := "none"
		if wants[0] && wants[1] {
			want = zlib
		}
		if got := client.Algorithms().Compressions; got != [2]string{want, want} {
			t.Errorf("%v: the compression is %q", wants, got)
		}
		echoed(t, client, logs(100_000))
	}
}

// TestCompressionWithSSHD: OpenSSH's server flushes so that packets end in the middle of a byte,
// and starts anew with each exchange of keys.
func TestCompressionWithSSHD(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{Config: []string{"RekeyLimit 1M", "Compression yes"}})
	cc, key := userOf(t, s)
	cc.Algorithms.Compress = true
	cc.Flight = func(*ssh.Conn) *ssh.Flight { return &ssh.Flight{Signer: key, Subsystem: "sftp"} }
	c, err := dialOpenSSH(t, s, cc)
	must(t, err)
	if got := c.Algorithms().Compressions; got != [2]string{zlib, zlib} {
		t.Fatalf("the compression is %q", got)
	}
	if ch, ok, err := c.FlightChannel(context.Background()); ch != nil || ok || err != nil {
		t.Errorf("a channel that left before the compression: %v, %v", ok, err)
	}
	sftpInit(t, session(t, c, "sftp"))
	data := logs(20 << 20)
	if got := run(t, c, "cat", bytes.NewReader(data)); !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back that differ", len(got))
	}
	if c.Exchanges() < 3 {
		t.Errorf("keys were exchanged %d times", c.Exchanges())
	}
}

// TestCompressionWithSSH: OpenSSH's client, to our server.
func TestCompressionWithSSH(t *testing.T) {
	program := opensshd.Find(t, "ssh")
	sc := &ssh.ServerConfig{Version: "SSH-2.0-ours", HostKeys: []xssh.Signer{signer(t, "ed25519")}}
	sc.Algorithms.Compress = true
	args := listen(t, sc)
	data := logs(20 << 20)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(args("-v", "-C", "-o", "LogLevel=DEBUG1", "-o",
		"RekeyLimit=1M"), "cat")...)
	cmd.Stdin = bytes.NewReader(data)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || !bytes.Equal(out, data) {
		t.Errorf("%v: %d bytes came back: %s", err, len(out), &stderr)
	}
	if !bytes.Contains(stderr.Bytes(), []byte("compression: "+zlib)) {
		t.Errorf("it does not compress: %s", &stderr)
	}
}

// TestCompressionWithPuTTY: it ends packets in the middle of a block that goes on in the next one.
func TestCompressionWithPuTTY(t *testing.T) {
	host := signer(t, "ed25519")
	sc := &ssh.ServerConfig{Version: "SSH-2.0-ours", HostKeys: []xssh.Signer{host}}
	sc.Algorithms.Compress = true
	options := listen(t, sc)()
	identity, port := options[slices.Index(options, "-i")+1], options[slices.Index(options, "-p")+1]
	out, err := exec.Command(testenv.Program(t, "puttygen"), identity, "-o",
		identity+".ppk").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data := logs(5 << 20)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Program(t, "plink"), "-ssh", "-v", "-C", "-batch",
		"-hostkey", xssh.FingerprintSHA256(host.PublicKey()), "-i", identity+".ppk", "-P", port,
		"ann@127.0.0.1", "cat")
	cmd.Stdin = bytes.NewReader(data)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if out, err = cmd.Output(); err != nil || !bytes.Equal(out, data) {
		t.Errorf("%v: %d bytes came back: %s", err, len(out), &stderr)
	}
	if !bytes.Contains(stderr.Bytes(), []byte("zlib (RFC1950) compression")) {
		t.Errorf("it does not compress: %s", &stderr)
	}
}

// TestCompressionOfAttackers: what a packet becomes is bounded, and what is no zlib stream ends the
// connection.
func TestCompressionOfAttackers(t *testing.T) {
	big := append([]byte{2}, make([]byte, 1<<20)...) // IGNORE
	for name, packed := range map[string][]byte{
		"a bomb":           ssh.Pack(big),
		"nothing":          ssh.Pack(nil),
		"no zlib":          {2, 0, 0, 0, 0, 1, 2, 3},
		"only the header":  {0x78, 0x9c},
		"a dictionary":     {0x78, 0xbb, 1, 2, 3, 4},
		"a bad block":      {0x78, 0x9c, 0xff, 0xff, 0xff},
		"the end of it":    {0x78, 0x9c, 3, 0, 0, 0, 0, 1},
		"from before time": {0x78, 0x9c, 0x63, 0x00, 0x02, 0xff, 0x01},
	} {
		t.Run(name, func(t *testing.T) {
			key := signer(t, "ed25519")
			cc, sc := clientConfig(key), serverConfig(t, key.PublicKey())
			cc.Algorithms.Compress, sc.Algorithms.Compress = true, true
			client, server := connect(t, cc, sc)
			must(t, ssh.InjectPacked(client, packed))
			select {
			case <-server.Done():
			case <-time.After(testenv.Patience(t)):
				t.Fatal("it is taken")
			}
			var protocol *ssh.ProtocolError
			if !errors.As(server.Err(), &protocol) {
				t.Errorf("the connection ended with %v", server.Err())
			}
		})
	}
}
