package ssh_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
)

// Messages of the handshake: RFC 4250, section 4.1.
const (
	kexInit  = 20
	newKeys  = 21
	kexFirst = 30 // the client's public value
	kexReply = 31
)

// rewrite returns an attacker (see shake). change gets each message before the keys and returns the
// messages to pass on instead. After that, sealed gets the stream, from its first byte.
func rewrite(change func(payload []byte) [][]byte, sealed func([]byte) []byte) func([]byte) []byte {
	var all []byte
	version, keys := false, false
	return func(p []byte) (out []byte) {
		all = append(all, p...)
		if !version {
			i := bytes.IndexByte(all, '\n') + 1
			if i == 0 {
				return nil
			}
			out, all, version = append(out, all[:i]...), all[i:], true
		}
		for !keys && len(all) >= 5 {
			n := 4 + int(binary.BigEndian.Uint32(all))
			if len(all) < n {
				return out
			}
			payload := slices.Clone(all[5 : n-int(all[4])])
			all = all[n:]
			keys = payload[0] == newKeys
			for _, m := range change(payload) {
				out = append(out, clearPacket(m)...)
			}
		}
		if keys && len(all) > 0 {
			out = append(out, sealed(all)...)
			all = nil
		}
		return out
	}
}

// clearPacket is an unencrypted packet: RFC 4253, section 6.
func clearPacket(payload []byte) []byte {
	pad := 8 - (5+len(payload))%8
	if pad < 4 {
		pad += 8
	}
	p := binary.BigEndian.AppendUint32(nil, uint32(1+len(payload)+pad))
	return append(append(append(p, byte(pad)), payload...), make([]byte, pad)...)
}

// on changes messages of one kind and leaves the others alone.
func on(kind byte, change func(p []byte) [][]byte) func([]byte) [][]byte {
	return func(p []byte) [][]byte {
		if p[0] != kind {
			return [][]byte{p}
		}
		return change(p)
	}
}

// fields splits a message after a fixed head into its strings and the rest.
func fields(p []byte, head, n int) (parts [][]byte, rest []byte) {
	p = p[head:]
	for range n {
		size := binary.BigEndian.Uint32(p)
		parts = append(parts, p[4:4+size])
		p = p[4+size:]
	}
	return parts, p
}

func join(head []byte, parts [][]byte, rest []byte) []byte {
	p := slices.Clone(head)
	for _, part := range parts {
		p = append(binary.BigEndian.AppendUint32(p, uint32(len(part))), part...)
	}
	return append(p, rest...)
}

// alterList changes the name-list at an index of KEXINIT.
func alterList(at int, change func([]string) []string) func([]byte) [][]byte {
	return on(kexInit, func(p []byte) [][]byte {
		parts, rest := fields(p, 17, 10)
		names := strings.Split(string(parts[at]), ",")
		parts[at] = []byte(strings.Join(change(names), ","))
		return [][]byte{join(p[:17], parts, rest)}
	})
}

func unchanged(p []byte) [][]byte { return [][]byte{p} }

func dropFirst(names []string) []string { return names[1:] }

func without(name string) func([]string) []string {
	return func(names []string) []string {
		return slices.DeleteFunc(names, func(n string) bool { return n == name })
	}
}

// alterString replaces a string in a message that consists of strings.
func alterString(kind byte, n, at int, value []byte) func([]byte) [][]byte {
	return on(kind, func(p []byte) [][]byte {
		parts, rest := fields(p, 1, n)
		parts[at] = value
		return [][]byte{join(p[:1], parts, rest)}
	})
}

// TestEveryFieldOfTheHandshake: an attacker changes each field of each message, drops, repeats and
// reorders messages, and inserts others. Neither side may end with a login.
func TestEveryFieldOfTheHandshake(t *testing.T) {
	another := signer(t, "ed25519")
	signature, err := another.Sign(nil, []byte("something else"))
	must(t, err)
	twice := func(p []byte) [][]byte { return [][]byte{p, p} }
	drop := func([]byte) [][]byte { return nil }
	before := func(m ...byte) func([]byte) [][]byte {
		return func(p []byte) [][]byte { return [][]byte{m, p} }
	}
	behind := func(m ...byte) func([]byte) [][]byte {
		return func(p []byte) [][]byte { return [][]byte{p, m} }
	}
	longer := func(p []byte) [][]byte { return [][]byte{append(p, 0)} }
	shorter := func(p []byte) [][]byte { return [][]byte{p[:len(p)-1]} }
	// held delays a message of one kind until the next one has passed.
	held := func(kind byte) func([]byte) [][]byte {
		var kept []byte
		return func(p []byte) [][]byte {
			switch {
			case p[0] == kind && kept == nil:
				kept = p
				return nil
			case kept != nil:
				m := kept
				kept = []byte{}
				if len(m) > 0 {
					return [][]byte{p, m}
				}
			}
			return [][]byte{p}
		}
	}
	type mutation struct {
		name     string
		up, down func() func([]byte) [][]byte
	}
	var all []mutation
	add := func(name string, up, down func() func([]byte) [][]byte) {
		all = append(all, mutation{name, up, down})
	}
	one := func(f func([]byte) [][]byte) func() func([]byte) [][]byte {
		return func() func([]byte) [][]byte { return f }
	}
	each := func(name string, f func() func([]byte) [][]byte) {
		add(name+", up", f, one(unchanged))
		add(name+", down", one(unchanged), f)
	}
	lists := []string{"kex", "host keys", "ciphers up", "ciphers down", "MACs up", "MACs down",
		"compression up", "compression down", "languages up", "languages down"}
	for i, name := range lists {
		each("KEXINIT, "+name+" with another in front",
			one(alterList(i, func(n []string) []string { return append([]string{"x"}, n...) })))
		each("KEXINIT, "+name+" with another behind",
			one(alterList(i, func(n []string) []string { return append(n, "x") })))
		if i < 6 { // the other lists have one name, or none
			each("KEXINIT, "+name+" without the first", one(alterList(i, dropFirst)))
			each("KEXINIT, "+name+" reordered", one(alterList(i, func(n []string) []string {
				slices.Reverse(n)
				return n
			})))
			// Both sides see a shortened list to choose from: a downgrade.
			add("KEXINIT, "+name+" without the first on both ways", one(alterList(i, dropFirst)),
				one(alterList(i, dropFirst)))
		}
		each("KEXINIT, "+name+" empty", one(alterList(i, func(n []string) []string {
			if n[0] == "" {
				return []string{"x"}
			}
			return nil
		})))
	}
	for _, name := range []string{"kex-strict-c-v00@openssh.com", "ext-info-c"} {
		add("KEXINIT without "+name, one(alterList(0, without(name))), one(unchanged))
	}
	add("KEXINIT without the server's strict", one(unchanged),
		one(alterList(0, without("kex-strict-s-v00@openssh.com"))))
	add("KEXINIT without strict on both ways",
		one(alterList(0, without("kex-strict-c-v00@openssh.com"))),
		one(alterList(0, without("kex-strict-s-v00@openssh.com"))))
	each("KEXINIT, the guess", one(on(kexInit, func(p []byte) [][]byte {
		p[len(p)-5] ^= 1
		return [][]byte{p}
	})))
	each("KEXINIT, another guess", one(on(kexInit, func(p []byte) [][]byte {
		p[len(p)-5] = 2 // any other value is true: RFC 4251, section 5
		return [][]byte{p}
	})))
	each("KEXINIT, reserved", one(on(kexInit, func(p []byte) [][]byte {
		p[len(p)-1] = 1
		return [][]byte{p}
	})))
	kinds := []struct {
		name     string
		kind     byte
		up, down bool
	}{{"KEXINIT", kexInit, true, true}, {"INIT", kexFirst, true, false},
		{"REPLY", kexReply, false, true}, {"NEWKEYS", newKeys, true, true}}
	for _, k := range kinds {
		with := func(what string, f func() func([]byte) [][]byte) {
			if k.up {
				add(k.name+" "+what+", up", f, one(unchanged))
			}
			if k.down {
				add(k.name+" "+what+", down", one(unchanged), f)
			}
		}
		with("dropped", one(on(k.kind, drop)))
		with("twice", one(on(k.kind, twice)))
		with("longer", one(on(k.kind, longer)))
		if k.kind != newKeys {
			with("shorter", one(on(k.kind, shorter)))
			with("behind the next", func() func([]byte) [][]byte { return held(k.kind) })
		}
		with("empty", one(on(k.kind, func(p []byte) [][]byte { return [][]byte{p[:1]} })))
		if k.kind == newKeys { // it is empty
			all = slices.DeleteFunc(all, func(m mutation) bool {
				return strings.HasPrefix(m.name, "NEWKEYS empty")
			})
		}
		for name, m := range map[string][]byte{"IGNORE": {2, 0, 0, 0, 0},
			"UNIMPLEMENTED": {3, 0, 0, 0, 0},
			"DEBUG":         {4, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "SERVICE_REQUEST": {5, 0, 0, 0, 0},
			"EXT_INFO": {7, 0, 0, 0, 0}, "NEWKEYS": {newKeys}, "USERAUTH_SUCCESS": {52},
			"GLOBAL_REQUEST": {80, 0, 0, 0, 0, 0}, "PING": {192, 0, 0, 0, 0}, "something": {250}} {
			with("behind "+name, one(on(k.kind, before(m...))))
			if k.kind != newKeys { // everything after it is encrypted
				with("before "+name, one(on(k.kind, behind(m...))))
			}
		}
	}
	add("another host key", one(unchanged),
		one(alterString(kexReply, 3, 0, another.PublicKey().Marshal())))
	add("no host key", one(unchanged), one(alterString(kexReply, 3, 0, nil)))
	add("another signature", one(unchanged),
		one(alterString(kexReply, 3, 2, xssh.Marshal(signature))))
	add("no signature", one(unchanged), one(alterString(kexReply, 3, 2, nil)))
	add("a signature of another algorithm", one(unchanged), one(alterString(kexReply, 3, 2,
		xssh.Marshal(&xssh.Signature{Format: "ssh-rsa", Blob: signature.Blob}))))
	add("a longer signature", one(unchanged), one(on(kexReply, func(p []byte) [][]byte {
		parts, rest := fields(p, 1, 3)
		parts[2] = append(slices.Clone(parts[2]), 0)
		return [][]byte{join(p[:1], parts, rest)}
	})))
	add("host key and signature of another", one(unchanged),
		one(on(kexReply, func(p []byte) [][]byte {
			parts, rest := fields(p, 1, 3)
			parts[0], parts[2] = another.PublicKey().Marshal(), xssh.Marshal(signature)
			return [][]byte{join(p[:1], parts, rest)}
		})))
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cc, sc := several(t)
				keep := func(p []byte) []byte { return p }
				client, server, err, serverErr := shake(cc, sc, rewrite(m.up(), keep),
					rewrite(m.down(), keep))
				defer end(client, server)
				if err == nil || serverErr == nil {
					t.Errorf("client: %v; server: %v", err, serverErr)
				}
			})
		})
	}
	t.Run("nothing changed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cc, sc := several(t)
			keep := func(p []byte) []byte { return p }
			client, server, err, serverErr := shake(cc, sc, rewrite(unchanged, keep),
				rewrite(unchanged, keep))
			defer end(client, server)
			if err != nil || serverErr != nil {
				t.Errorf("client: %v; server: %v", err, serverErr)
			}
		})
	})
}

// several returns configurations with two of everything, so that one can be removed.
func several(t *testing.T) (*ssh.ClientConfig, *ssh.ServerConfig) {
	user := signer(t, "ed25519")
	cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
	cc.Algorithms = ssh.Algorithms{KeyExchanges: []string{"curve25519-sha256",
		"ecdh-sha2-nistp256"},
		Ciphers: []string{"aes128-gcm@openssh.com", "aes128-ctr"},
		MACs:    []string{"hmac-sha2-256", "hmac-sha2-512"}}
	sc.Algorithms = cc.Algorithms
	sc.HostKeys = append(sc.HostKeys, signer(t, "ecdsa256"))
	return cc, sc
}

// TestFirstSealedMessages changes each byte of the first encrypted messages: the server's EXT_INFO,
// and the client's SERVICE_REQUEST.
func TestFirstSealedMessages(t *testing.T) {
	for _, way := range []string{"up", "down"} {
		t.Run(way, func(t *testing.T) {
			for at := range 64 {
				synctest.Test(t, func(t *testing.T) {
					cc, sc := several(t)
					keep := func(p []byte) []byte { return p }
					up, down := rewrite(unchanged, flip(at, 1<<(at%8))), rewrite(unchanged, keep)
					if way == "down" {
						up, down = rewrite(unchanged, keep), rewrite(unchanged, flip(at, 1<<(at%8)))
					}
					client, server, err, serverErr := shake(cc, sc, up, down)
					defer end(client, server)
					if err == nil || serverErr == nil {
						t.Errorf("byte %d: client: %v; server: %v", at, err, serverErr)
					}
				})
			}
		})
	}
}

// TestPublicValues: values that would reveal the secret, or belong to no group, are refused as
// such, before any signature is checked. RFC 7748, section 6.1; RFC 5656, section 4; RFC 4253,
// section 8.
func TestPublicValues(t *testing.T) {
	zeros := func(n int) []byte { return make([]byte, n) }
	one := func(n int) []byte { p := zeros(n); p[0] = 1; return p }
	// 2^255-19 less one, little-endian: a point of order two.
	low := slices.Concat([]byte{0xec}, bytes.Repeat([]byte{0xff}, 30), []byte{0x7f})
	point := func(n int) []byte { return append([]byte{4}, zeros(n-1)...) }
	for kex, values := range map[string]map[string][]byte{
		"curve25519-sha256": {"zero": zeros(32), "one": one(32), "low order": low,
			"short": zeros(31),
			"long":  zeros(33), "empty": nil},
		"ecdh-sha2-nistp256": {"off the curve": point(65), "infinity": {0}, "short": point(64),
			"compressed": append([]byte{2}, zeros(32)...), "empty": nil},
		"ecdh-sha2-nistp384": {"off the curve": point(97), "infinity": {0}},
		"ecdh-sha2-nistp521": {"off the curve": point(133), "infinity": {0}},
		"diffie-hellman-group14-sha256": {"zero": nil, "one": {1}, "negative": {0x80},
			"too large": append([]byte{1}, zeros(256)...)},
		"diffie-hellman-group16-sha512": {"zero": nil, "one": {1},
			"too large": append([]byte{1}, zeros(512)...)},
		"mlkem768x25519-sha256": {"empty": nil, "short": zeros(1215), "long": zeros(1217),
			"zero": zeros(1216), "all ones": bytes.Repeat([]byte{0xff}, 1216)},
	} {
		for name, value := range values {
			for _, way := range []string{"up", "down"} {
				if kex == "mlkem768x25519-sha256" && way == "down" && len(value) > 0 {
					if name == "all ones" {
						continue // it is valid: a ciphertext, and 18, which is on the curve
					}
					// The server's is shorter, and its last 32 bytes are a point.
					value = value[:len(value)-1216+1120]
				}
				t.Run(kex+" "+name+" "+way, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						cc, sc := small(t, kex)
						keep := func(p []byte) []byte { return p }
						up := rewrite(alterString(kexFirst, 1, 0, value), keep)
						down := rewrite(unchanged, keep)
						if way == "down" {
							up, down = down, rewrite(alterString(kexReply, 3, 1, value), keep)
						}
						client, server, err, serverErr := shake(cc, sc, up, down)
						defer end(client, server)
						if err == nil || serverErr == nil {
							t.Fatalf("client: %v; server: %v", err, serverErr)
						}
						who := serverErr
						if way == "down" {
							who = err
						}
						var protocol *ssh.ProtocolError
						if !errors.As(who, &protocol) ||
							!strings.Contains(who.Error(), "invalid public value") {
							t.Errorf("it was refused with: %v", who)
						}
					})
				})
			}
		}
	}
}

// TestGroupExchange changes each byte of the messages of diffie-hellman-group-exchange-sha256 that
// name the group, and makes them longer: RFC 4419, section 3.
func TestGroupExchange(t *testing.T) {
	const request, group = 34, 31
	try := func(name string, way string, change func([]byte) [][]byte) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cc, sc := small(t, "diffie-hellman-group-exchange-sha256")
				keep := func(p []byte) []byte { return p }
				up, down := rewrite(change, keep), rewrite(unchanged, keep)
				if way == "down" {
					up, down = rewrite(unchanged, keep), rewrite(change, keep)
				}
				client, server, err, serverErr := shake(cc, sc, up, down)
				defer end(client, server)
				if err == nil || serverErr == nil {
					t.Errorf("client: %v; server: %v", err, serverErr)
				}
			})
		})
	}
	alter := func(kind byte, at int, bit byte) func([]byte) [][]byte {
		return on(kind, func(p []byte) [][]byte {
			p[at] ^= bit
			return [][]byte{p}
		})
	}
	for at := 1; at <= 12; at++ {
		try(fmt.Sprintf("request, byte %d", at), "up", alter(request, at, 1))
	}
	// The length of p, its sign, its first and last bytes, then 512 bytes of it, and g.
	for _, at := range []int{1, 2, 3, 4, 5, 6, 7, 517, 518, 521, 522} {
		try(fmt.Sprintf("group, byte %d", at), "down", alter(group, at, 1))
	}
	longer := func(kind byte) func([]byte) [][]byte {
		return on(kind, func(p []byte) [][]byte { return [][]byte{append(p, 0)} })
	}
	try("request, longer", "up", longer(request))
	try("group, longer", "down", longer(group))
	try("another generator", "down", alterString(group, 2, 1, []byte{5}))
	try("generator one", "down", alterString(group, 2, 1, []byte{1}))
	try("a prime with zeros in front", "down", on(group, func(p []byte) [][]byte {
		parts, rest := fields(p, 1, 2)
		parts[0] = append([]byte{0, 0}, parts[0]...)
		return [][]byte{join(p[:1], parts, rest)}
	}))
	try("a negative prime", "down", on(group, func(p []byte) [][]byte {
		parts, rest := fields(p, 1, 2)
		parts[0] = parts[0][1:]
		return [][]byte{join(p[:1], parts, rest)}
	}))
	try("a small prime", "down", alterString(group, 2, 0, []byte{0, 0xff, 0xff}))
}
