package ssh_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestOpenSSHLearnsHostKeys: a client that knows one of the server's keys learns the others, and
// forgets one that the server no longer has.
func TestOpenSSHLearnsHostKeys(t *testing.T) {
	program := opensshd.Find(t, "ssh")
	for _, algo := range []string{xssh.KeyAlgoED25519, xssh.KeyAlgoRSASHA256} {
		t.Run(algo, func(t *testing.T) {
			keys := []xssh.Signer{signer(t, "ed25519"), signer(t, "ecdsa256"), signer(t, "rsa")}
			known := keys[0]
			if algo != xssh.KeyAlgoED25519 {
				known = keys[2]
			}
			args := listen(t, &ssh.ServerConfig{Version: "SSH-2.0-ours", HostKeys: append(keys,
				certify(t, keys[0], xssh.HostCert, "127.0.0.1"))}) // which is not to be learnt
			all := args()
			port := all[slices.Index(all, "-p")+1]
			file := filepath.Join(t.TempDir(), "known_hosts")
			line := func(key xssh.PublicKey) string {
				return knownhosts.Line([]string{"[127.0.0.1]:" + port}, key) + "\n"
			}
			old := line(signer(t, "ed25519").PublicKey())
			must(t, os.WriteFile(file, []byte(line(known.PublicKey())+old), 0o600))
			ctx, cancel := context.WithTimeout(context.Background(), 2*testenv.Patience(t))
			defer cancel()
			cmd := exec.CommandContext(ctx, program, append(append([]string{
				"-o", "UserKnownHostsFile=" + file, "-o", "StrictHostKeyChecking=yes",
				"-o", "UpdateHostKeys=yes", "-o", "HostKeyAlgorithms=" + algo +
					",ssh-ed25519,ecdsa-sha2-nistp256,rsa-sha2-512", "-o", "LogLevel=DEBUG"}, all...), "cat")...)
			stdin, err := cmd.StdinPipe()
			must(t, err)
			var said bytes.Buffer
			cmd.Stderr = &said
			must(t, cmd.Start())
			complete := func() bool {
				text, err := os.ReadFile(file)
				must(t, err)
				for _, key := range keys {
					if !strings.Contains(string(text), line(key.PublicKey())) {
						return false
					}
				}
				return !strings.Contains(string(text), old) && strings.Count(string(text), "\n") == 3
			}
			defer func() {
				stdin.Close()
				if err := cmd.Wait(); err != nil || !complete() {
					text, _ := os.ReadFile(file)
					t.Errorf("%v: ssh knows\n%s\n%s", err, text, said.Bytes())
				}
			}()
			testenv.Until(t, "ssh has learnt the keys", complete)
		})
	}
}

// countingSigner counts what it signs.
type countingSigner struct {
	xssh.AlgorithmSigner
	signed *atomic.Int32
}

func (s countingSigner) SignWithAlgorithm(random io.Reader, data []byte,
	algo string) (*xssh.Signature, error) {
	s.signed.Add(1)
	return s.AlgorithmSigner.SignWithAlgorithm(random, data, algo)
}

// TestProofsOfHostKeys: signatures are valid, there is none for what is not a key of the server,
// and a client cannot keep the server signing.
func TestProofsOfHostKeys(t *testing.T) {
	const request = "hostkeys-prove-00@openssh.com"
	key := signer(t, "ed25519")
	sc := serverConfig(t, key.PublicKey())
	var signed atomic.Int32
	sc.HostKeys = []xssh.Signer{signer(t, "ed25519"),
		countingSigner{signer(t, "rsa").(xssh.AlgorithmSigner), &signed}}
	field := func(p, data []byte) []byte {
		return append(binary.BigEndian.AppendUint32(p, uint32(len(data))), data...)
	}
	blobs := [][]byte{sc.HostKeys[0].PublicKey().Marshal(), sc.HostKeys[1].PublicKey().Marshal()}
	both := field(field(nil, blobs[0]), blobs[1])
	for name, payload := range map[string][]byte{
		"nothing": nil, "another key": field(nil, key.PublicKey().Marshal()), "twice": append(
			slices.Clone(both), field(nil, blobs[0])...), "cut": both[:len(both)-1],
		"a length beyond the end": {0xff, 0xff, 0xff, 0xff},
	} {
		client, _ := connect(t, clientConfig(key), sc)
		if ok, _, err := client.SendRequest(t.Context(), request, true, payload); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	client, _ := connect(t, clientConfig(key), sc)
	signed.Store(0)
	for i := range 4 {
		ok, answer, err := client.SendRequest(t.Context(), request, true, both)
		if err != nil || ok != (i < 2) {
			t.Fatalf("request %d: %v, %v", i, ok, err)
		}
		for k := 0; ok && k < 2; k++ {
			n := binary.BigEndian.Uint32(answer)
			var signature xssh.Signature
			must(t, xssh.Unmarshal(answer[4:4+n], &signature))
			answer = answer[4+n:]
			data := field(field(field(nil, []byte(request)), client.SessionID()), blobs[k])
			must(t, sc.HostKeys[k].PublicKey().Verify(data, &signature))
			if want := []string{xssh.KeyAlgoED25519, xssh.KeyAlgoRSASHA512}[k]; signature.Format != want {
				t.Errorf("signed with %s, want %s", signature.Format, want)
			}
		}
	}
	if n := signed.Load(); n != 2 {
		t.Errorf("%d signatures by one key, want 2", n)
	}
}
