package ssh_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/ssh"
)

// tamper is a connection whose writes an attacker changes. The attacker gets everything written so
// far in one direction, and how much of it has passed, and returns what may pass now.
type tamper struct {
	net.Conn
	change func(p []byte) []byte
}

func (t *tamper) Write(p []byte) (int, error) {
	if _, err := t.Conn.Write(t.change(slices.Clone(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flip changes one byte of the stream.
func flip(at int, bit byte) func([]byte) []byte {
	offset := 0
	return func(p []byte) []byte {
		if i := at - offset; i >= 0 && i < len(p) {
			p[i] ^= bit
		}
		offset += len(p)
		return p
	}
}

func same(p []byte) []byte { return p }

// shake runs a handshake with an attacker in both directions.
func shake(cc *ssh.ClientConfig, sc *ssh.ServerConfig,
	up, down func([]byte) []byte) (client, server *ssh.Conn, clientErr, serverErr error) {
	a, b := memPipe()
	var wait sync.WaitGroup
	wait.Go(func() { server, serverErr = ssh.Server(&tamper{b, down}, sc) })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, clientErr = ssh.Client(ctx, &tamper{a, up}, cc)
	wait.Wait()
	return client, server, clientErr, serverErr
}

func end(conns ...*ssh.Conn) {
	for _, c := range conns {
		if c != nil {
			c.Close()
			<-c.Done()
		}
	}
}

// small returns configurations with short handshakes.
func small(t *testing.T, kex string) (*ssh.ClientConfig, *ssh.ServerConfig) {
	user := signer(t, "ed25519")
	cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
	cc.Algorithms = ssh.Algorithms{KeyExchanges: []string{kex},
		Ciphers: []string{"aes128-gcm@openssh.com"}, MACs: []string{"hmac-sha2-256"},
		HostKeys: []string{xssh.KeyAlgoED25519}}
	sc.Algorithms = cc.Algorithms
	return cc, sc
}

// covered returns which bytes of a side's messages before its keys the handshake must protect: all
// except padding.
func covered(stream []byte) []bool {
	need := make([]bool, 0, len(stream))
	at := bytes.IndexByte(stream, '\n') + 1
	for range at {
		need = append(need, true)
	}
	for at < len(stream) {
		length := int(binary.BigEndian.Uint32(stream[at:]))
		pad := int(stream[at+4])
		for i := range 4 + length {
			need = append(need, i < 4+length-pad)
		}
		at += 4 + length
		if stream[at-length+1] == 21 { // NEWKEYS
			break
		}
	}
	return need
}

// TestEveryByteOfTheHandshake changes each byte that is sent before the keys, in both directions.
// The handshake must fail, or if only padding changed, have the same result. Long handshakes have
// each byte changed only with USFTP_SOAK=1.
func TestEveryByteOfTheHandshake(t *testing.T) {
	for _, kex := range []string{"curve25519-sha256", "ecdh-sha2-nistp256", "mlkem768x25519-sha256",
		"diffie-hellman-group14-sha256"} {
		t.Run(kex, func(t *testing.T) {
			share := 1 // one byte in so many, where there are many
			if strings.HasPrefix(kex, "mlkem") || strings.HasPrefix(kex, "diffie") {
				share = 16
			}
			cc, sc := small(t, kex)
			sent := map[string]*bytes.Buffer{"up": {}, "down": {}}
			keep := func(way string) func([]byte) []byte {
				return func(p []byte) []byte { sent[way].Write(p); return p }
			}
			synctest.Test(t, func(t *testing.T) {
				client, server, err, serverErr := shake(cc, sc, keep("up"), keep("down"))
				if err != nil || serverErr != nil {
					t.Fatalf("client: %v; server: %v", err, serverErr)
				}
				end(client, server)
			})
			key := signer(t, "ed25519")
			sc.Auth.PublicKeyCallback = letIn(key.PublicKey())
			for way, stream := range sent {
				for at := range covered(stream.Bytes()) {
					if !soak.Share(at, share) {
						continue
					}
					synctest.Test(t, func(t *testing.T) {
						cc := *cc
						cc.Auth = once(ssh.PublicKey(key))
						// The length of numbers differs from handshake to handshake.
						var now []byte
						change := flip(at, 1<<(at%8))
						up, down := func(p []byte) []byte {
							now = append(now, p...)
							return change(p)
						}, same
						if way == "down" {
							up, down = down, up
						}
						client, server, err, serverErr := shake(&cc, sc, up, down)
						defer end(client, server)
						synctest.Wait() // the server still announces its keys
						need := covered(now)
						if at >= len(need) {
							return
						}
						if need[at] && (err == nil || serverErr == nil) {
							t.Errorf("%s, byte %d of %d changed: client: %v, server: %v", way, at,
								len(need), err, serverErr)
						}
						if !need[at] && (err != nil || serverErr != nil ||
							!bytes.Equal(client.SessionID(), server.SessionID())) {
							t.Errorf("%s, byte %d of padding: client: %v, server: %v", way, at, err,
								serverErr)
						}
					})
				}
			}
		})
	}
}

// TestTerrapin is CVE-2023-48795: the attacker inserts a packet before the keys and removes one
// after them, so that sequence numbers match again. Strict key exchange detects both.
func TestTerrapin(t *testing.T) {
	ignore := []byte{0, 0, 0, 12, 6, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, cipher := range []string{"chacha20-poly1305@openssh.com", "aes128-gcm@openssh.com",
		"aes128-ctr"} {
		for _, way := range []string{"up", "down"} {
			for _, what := range []string{"insert before KEXINIT", "insert behind KEXINIT",
				"insert and truncate", "truncate"} {
				t.Run(fmt.Sprint(cipher, " ", way, " ", what), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						cc, sc := small(t, "curve25519-sha256")
						cc.Algorithms.Ciphers = []string{cipher}
						cc.Algorithms.MACs = []string{"hmac-sha2-256-etm@openssh.com"}
						sc.Algorithms = cc.Algorithms
						attack := func() func([]byte) []byte {
							var all []byte
							packets, cut := 0, false
							return func(p []byte) []byte {
								all = append(all, p...)
								var out []byte
								if packets == 0 { // the version
									i := bytes.IndexByte(all, '\n') + 1
									out, all, packets = append(out, all[:i]...), all[i:], 1
									if what == "insert before KEXINIT" {
										out = append(out, ignore...)
									}
								}
								for packets < 4 && len(all) > 4 {
									n := 4 + int(binary.BigEndian.Uint32(all))
									kind := all[5]
									out, all = append(out, all[:n]...), all[n:]
									if packets++; packets == 2 &&
										(what == "insert behind KEXINIT" ||
											what == "insert and truncate") {
										out = append(out, ignore...)
									}
									if kind == 21 {
										packets = 4
									}
								}
								if packets == 4 && !cut && len(all) > 0 &&
									(what == "truncate" || what == "insert and truncate") {
									// The first packet under keys: EXT_INFO, which comes alone, or
									// SERVICE_REQUEST.
									cut = true
									n := len(all)
									switch {
									case way == "down":
									case cipher == "chacha20-poly1305@openssh.com":
										n = 4 + 24 + 16 // the length is encrypted
									case cipher == "aes128-ctr":
										n = 4 + int(binary.BigEndian.Uint32(all)) + 32
									default:
										n = 4 + int(binary.BigEndian.Uint32(all)) + 16
									}
									all = all[n:]
								}
								out = append(out, all...)
								if packets == 4 {
									all = nil
								}
								return out
							}
						}
						up, down := attack(), same
						if way == "down" {
							up, down = down, up
						}
						client, server, err, serverErr := shake(cc, sc, up, down)
						defer end(client, server)
						if err == nil || serverErr == nil {
							t.Errorf("client: %v; server: %v", err, serverErr)
						}
					})
				})
			}
		}
	}
}
