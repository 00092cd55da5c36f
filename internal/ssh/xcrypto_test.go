package ssh_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
)

// TestWithXCrypto: each side talks to x/crypto/ssh, with each algorithm that both know, and new
// keys every 256 KiB.
func TestWithXCrypto(t *testing.T) {
	user, host := signer(t, "ed25519"), signer(t, "rsa")
	theirs := xssh.SupportedAlgorithms()
	common := func(ours, theirs []string) (both []string) {
		for _, a := range ours {
			for _, b := range theirs {
				if a == b {
					both = append(both, a)
				}
			}
		}
		return both
	}
	all := ssh.Supported()
	var cases []ssh.Algorithms
	for _, k := range common(all.KeyExchanges, theirs.KeyExchanges) {
		cases = append(cases, ssh.Algorithms{KeyExchanges: []string{k}})
	}
	for _, c := range common(all.Ciphers, theirs.Ciphers) {
		cases = append(cases, ssh.Algorithms{Ciphers: []string{c}})
	}
	for _, m := range common(all.MACs, theirs.MACs) {
		cases = append(cases, ssh.Algorithms{Ciphers: []string{"aes256-ctr"}, MACs: []string{m}})
	}
	if len(cases) < 15 {
		t.Fatalf("only %d algorithms in common", len(cases))
	}
	data := pattern(soak.Pick(1, 3) << 20) // keys are exchanged four or twelve times each way
	for _, a := range cases {
		name := ""
		for _, l := range [][]string{a.KeyExchanges, a.Ciphers, a.MACs} {
			if len(l) > 0 {
				name = l[0]
			}
		}
		t.Run("client/"+name, func(t *testing.T) {
			near, far := testenv.TCPPair()
			sc := &xssh.ServerConfig{PublicKeyCallback: letIn(user.PublicKey())}
			sc.RekeyThreshold, sc.KeyExchanges = 256<<10, a.KeyExchanges
			sc.AddHostKey(host)
			go xcryptoEcho(far, sc)
			cc := clientConfig(user)
			cc.Algorithms, cc.RekeyBytes = a, 256<<10
			c, err := ssh.Client(context.Background(), near, cc)
			must(t, err)
			defer end(c)
			ch := session(t, c, "echo")
			go func() {
				ch.Write(data)
				ch.CloseWrite()
			}()
			if got, err := io.ReadAll(ch); !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
		})
		t.Run("server/"+name, func(t *testing.T) {
			near, far := testenv.TCPPair()
			sc := serverConfig(t, user.PublicKey())
			sc.HostKeys, sc.Algorithms, sc.RekeyBytes = []xssh.Signer{host}, a, 256<<10
			go func() {
				if c, err := ssh.Server(far, sc); err == nil {
					echo(c)
				}
			}()
			cc := &xssh.ClientConfig{User: "ann", Auth: []xssh.AuthMethod{xssh.PublicKeys(user)},
				HostKeyCallback: xssh.InsecureIgnoreHostKey()}
			cc.RekeyThreshold, cc.KeyExchanges = 256<<10, a.KeyExchanges
			conn, chans, reqs, err := xssh.NewClientConn(near, "", cc)
			must(t, err)
			client := xssh.NewClient(conn, chans, reqs)
			defer client.Close()
			s, err := client.NewSession()
			must(t, err)
			in, err := s.StdinPipe()
			must(t, err)
			out, err := s.StdoutPipe()
			must(t, err)
			must(t, s.RequestSubsystem("echo"))
			go func() {
				in.Write(data)
				in.Close()
			}()
			if got, err := io.ReadAll(out); !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
		})
	}
}

// xcryptoEcho sends back what arrives.
func xcryptoEcho(conn net.Conn, config *xssh.ServerConfig) {
	_, chans, requests, err := xssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go xssh.DiscardRequests(requests)
	for offer := range chans {
		ch, requests, err := offer.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				r.Reply(r.Type == "subsystem", nil)
				go func() {
					io.Copy(ch, ch)
					ch.Close()
				}()
			}
		}()
	}
}
