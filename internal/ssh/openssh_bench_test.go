//go:build unix

package ssh_test

import (
	"context"
	"io"
	"net"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/machine"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// BenchmarkWithOpenSSH transfers data from and to a real sshd, over this transport and over
// x/crypto/ssh. Only our own processor time per GiB counts, as the machine may be busy.
func BenchmarkWithOpenSSH(b *testing.B) {
	s := opensshd.Start(b, opensshd.Options{})
	const size = 256 << 20
	commands := map[string]string{"get": "head -c 268435456 /dev/zero", "put": "cat >/dev/null"}
	type channel interface {
		io.ReadWriter
		CloseWrite() error
	}
	move := func(b *testing.B, way string, open func() channel) {
		p := make([]byte, 256<<10)
		b.SetBytes(size)
		before := machine.ProcessorTime()
		n := 0
		for b.Loop() {
			n++
			ch := open()
			if way == "put" {
				for range size / len(p) {
					if _, err := ch.Write(p); err != nil {
						b.Fatal(err)
					}
				}
				ch.CloseWrite()
			}
			total := 0
			for {
				m, err := ch.Read(p)
				total += m
				if err != nil {
					break
				}
			}
			if way == "get" && total != size {
				b.Fatalf("%d bytes came", total)
			}
		}
		b.ReportMetric((machine.ProcessorTime()-before).Seconds()/float64(n)*(1<<30)/size, "cpu-s/GiB")
	}
	for _, way := range []string{"get", "put"} {
		b.Run("ours/"+way, func(b *testing.B) {
			cc, _ := userOf(b, s)
			cc.Algorithms.Ciphers = []string{"aes128-gcm@openssh.com"}
			c, err := dialOpenSSH(b, s, cc)
			must(b, err)
			move(b, way, func() channel {
				ch, err := c.Open(context.Background(), "session", nil)
				must(b, err)
				_, err = ch.SendRequest("exec", true,
					xssh.Marshal(struct{ S string }{commands[way]}))
				must(b, err)
				return ch
			})
		})
		b.Run("xcrypto/"+way, func(b *testing.B) {
			_, key := userOf(b, s)
			conn, err := net.Dial("tcp", s.Addr())
			must(b, err)
			config := &xssh.ClientConfig{User: s.User,
				Auth:            []xssh.AuthMethod{xssh.PublicKeys(key)},
				HostKeyCallback: xssh.InsecureIgnoreHostKey()}
			config.Ciphers = []string{"aes128-gcm@openssh.com"}
			c, chans, reqs, err := xssh.NewClientConn(conn, "", config)
			must(b, err)
			client := xssh.NewClient(c, chans, reqs)
			defer client.Close()
			move(b, way, func() channel {
				ch, requests, err := client.OpenChannel("session", nil)
				must(b, err)
				go xssh.DiscardRequests(requests)
				_, err = ch.SendRequest("exec", true,
					xssh.Marshal(struct{ S string }{commands[way]}))
				must(b, err)
				return ch
			})
		})
	}
}
