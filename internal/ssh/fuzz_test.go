package ssh

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// feed is a connection that returns the bytes it holds, and accepts anything.
type feed struct {
	capture
	in *bytes.Reader
}

func (f feed) Read(p []byte) (int, error)       { return f.in.Read(p) }
func (feed) Close() error                       { return nil }
func (feed) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (feed) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (feed) SetDeadline(time.Time) error        { return nil }
func (feed) SetReadDeadline(time.Time) error    { return nil }
func (feed) SetWriteDeadline(t time.Time) error { return nil }

func feedOf(p []byte) feed { return feed{in: bytes.NewReader(p)} }

// FuzzPacket feeds the packet reader arbitrary bytes, before keys and with each cipher. Packets
// must lie within the input.
func FuzzPacket(f *testing.F) {
	for i := range len(cipherSpecs) + 1 {
		f.Add(uint8(i), []byte("\x00\x00\x00\x0c\x04\x14payload\x00\x00\x00\x00"), true)
	}
	f.Add(uint8(0), []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, false)
	f.Fuzz(func(t *testing.T, which uint8, p []byte, batch bool) {
		tr := newTransport(feedOf(p), nil, Supported(), 0)
		defer close(tr.ended)
		if which > 0 {
			c, k := benchKeys(cipherSpecs[int(which-1)%len(cipherSpecs)].name)
			o, err := c.newCipher(k)
			if err != nil {
				t.Fatal(err)
			}
			tr.in.setOpener(o)
		}
		tr.in.batch = batch
		total := 0
		for {
			payload, err := tr.in.read()
			if err != nil {
				break
			}
			if len(payload) == 0 {
				t.Fatal("an empty payload")
			}
			if total += len(payload); total > len(p) {
				t.Fatal("more came out than went in")
			}
			if which > 0 {
				t.Fatal("a packet opened that nobody sealed")
			}
		}
		tr.in.close()
	})
}

// FuzzSealed encrypts packets of any size and decrypts them again, in arbitrary pieces.
func FuzzSealed(f *testing.F) {
	f.Add(uint8(0), []byte("hello"), uint16(3), uint8(40))
	f.Fuzz(func(t *testing.T, which uint8, p []byte, size uint16, bit uint8) {
		if len(p) == 0 {
			return
		}
		name := cipherSpecs[int(which)%len(cipherSpecs)].name
		var wire bytes.Buffer
		ch := sending(t, capture{kept: &wire}, name)
		for part := range slices.Chunk(p, int(size)+1) {
			ch.mux.t.out.message(context.Background(), append([]byte{99}, part...))
		}
		ch.drain()
		c, k := benchKeys(name)
		open := func(p []byte) (got []byte, err error) {
			tr := newTransport(feedOf(p), nil, Supported(), 0)
			defer close(tr.ended)
			o, _ := c.newCipher(k)
			tr.in.setOpener(o)
			tr.in.batch, tr.in.limit = true, maxPacketLength
			defer tr.in.close()
			for {
				payload, err := tr.in.read()
				if err != nil {
					return got, err
				}
				got = append(got, payload[1:]...)
			}
		}
		got, err := open(slices.Clone(wire.Bytes()))
		if !bytes.Equal(got, p) || err != io.EOF {
			t.Fatalf("%d bytes came back of %d, %v", len(got), len(p), err)
		}
		changed := slices.Clone(wire.Bytes())
		at := int(size) % len(changed)
		changed[at] ^= 1 << (bit % 8)
		if got, err := open(changed); err == io.EOF && !bytes.Equal(got, p) ||
			!bytes.HasPrefix(p, got) {
			t.Fatalf("byte %d of %d changed: %d bytes came, %v", at, len(changed), len(got), err)
		}
	})
}

func FuzzKexInit(f *testing.F) {
	f.Add((Supported()).kexInit(true, true).append(nil))
	f.Add([]byte{msgKexInit})
	f.Fuzz(func(t *testing.T, p []byte) {
		var k, again kexInit
		if k.parse(p) != nil {
			return
		}
		if err := again.parse(k.append(nil)); err != nil {
			t.Fatal(err)
		}
		ours := Supported().kexInit(false, true)
		if n, err := chooseAlgorithms(&k, ours, false); err == nil {
			if kexNamed(n.KeyExchange) == nil || cipherNamed(n.Ciphers[0]) == nil ||
				cipherNamed(n.Ciphers[1]) == nil {
				t.Fatalf("agreed on what there is not: %+v", n)
			}
		}
		guessedWrong(ours, &k)
	})
}

// FuzzMessages parses arbitrary bytes as each message, then writes and parses the result again.
func FuzzMessages(f *testing.F) {
	f.Add((&authRequest{"u", serviceConnection, "publickey",
		(&keyRequest{true, "ssh-ed25519", []byte("k"), appendString(nil, "s")}).append(
			nil)}).append(nil))
	f.Add((&authFailure{[]string{"a", "b"}, true}).append(nil))
	f.Add((&infoRequest{"n", "i", []string{"q"}, []bool{true}}).append(nil))
	f.Add(appendInfoResponse(nil, []string{"a"}))
	f.Add(disconnectMessage(2, "text"))
	f.Add(appendExtInfo(nil, []string{"a"}))
	f.Add((&channelOpen{"session", 1, 2, 3, nil}).append(nil))
	f.Add((&channelConfirm{1, 2, 3, 4}).append(nil))
	f.Add((&channelRequest{1, "exec", true, appendString(nil, "x")}).append(nil))
	f.Add((&globalRequest{"k", true, nil}).append(nil))
	f.Add(appendOpenFailure(nil, 1, 2, "no"))
	f.Fuzz(func(t *testing.T, p []byte) {
		var a, a2 authRequest
		if a.parse(p) == nil {
			if a2.parse(a.append(nil)) != nil || a2.user != a.user ||
				!bytes.Equal(a.rest, a2.rest) {
				t.Fatal("USERAUTH_REQUEST")
			}
			var k keyRequest
			if k.parse(a.rest) == nil {
				parseSignature(k.signature)
			}
		}
		var failure, failure2 authFailure
		if failure.parse(p) == nil && failure2.parse(failure.append(nil)) != nil {
			t.Fatal("USERAUTH_FAILURE")
		}
		var q, q2 infoRequest
		if q.parse(p) == nil && (q2.parse(q.append(nil)) != nil ||
			!slices.Equal(q.questions, q2.questions)) {
			t.Fatal("INFO_REQUEST")
		}
		if answers, err := parseInfoResponse(p); err == nil {
			again, err := parseInfoResponse(appendInfoResponse(nil, answers))
			if err != nil || !slices.Equal(answers, again) {
				t.Fatal("INFO_RESPONSE")
			}
		}
		parseBanner(p)
		parseDisconnect(p)
		parseExtInfo(p)
		parseGroup(p)
		parseKexReply(p, msgKexReply)
		var open, open2 channelOpen
		if open.parse(p) == nil && (open2.parse(open.append(nil)) != nil ||
			open.kind != open2.kind) {
			t.Fatal("CHANNEL_OPEN")
		}
		var confirm, confirm2 channelConfirm
		if confirm.parse(p) == nil && (confirm2.parse(confirm.append(nil)) != nil ||
			confirm != confirm2) {
			t.Fatal("CHANNEL_OPEN_CONFIRMATION")
		}
		var request, request2 channelRequest
		if request.parse(p) == nil && (request2.parse(request.append(nil)) != nil ||
			request.kind != request2.kind) {
			t.Fatal("CHANNEL_REQUEST")
		}
		var global globalRequest
		global.parse(p)
		parseOpenFailure(p)
	})
}

// FuzzChannels makes a logged-in client and server handle arbitrary messages, each preceded by its
// length.
func FuzzChannels(f *testing.F) {
	open := (&channelOpen{"session", 7, 1 << 20, 1 << 15, nil}).append(nil)
	data := appendString(appendUint32([]byte{msgChannelData}, 0), "data")
	script := func(messages ...[]byte) (all []byte) {
		for _, m := range messages {
			all = appendString(all, m)
		}
		return all
	}
	on0 := func(number byte) []byte { return appendUint32([]byte{number}, 0) }
	f.Add(false, script(open, data, on0(msgChannelEOF), on0(msgChannelClose)))
	f.Add(false, script(open, (&channelRequest{0, "subsystem", true,
		appendString(nil, "sftp")}).append(nil), appendUint32(on0(msgChannelWindowAdjust), 5)))
	f.Add(true, script((&channelConfirm{0, 0, 1 << 20, 1 << 15}).append(nil),
		on0(msgChannelSuccess), data, (&channelRequest{0, "exit-status", false,
			[]byte{0, 0, 0, 1}}).append(nil), on0(msgChannelClose)))
	f.Add(true, script(appendOpenFailure(nil, 0, 1, "no")))
	f.Fuzz(func(t *testing.T, client bool, p []byte) {
		tr := newTransport(feedOf(nil), nil, Supported(), 0)
		tr.client = client
		c := &Conn{t: tr, done: make(chan struct{})}
		c.mux = newMux(tr, c, 0)
		c.mux.accepts = !client
		tr.out.flusher = true
		go tr.out.flush()
		tr.in.queue = []inPacket{{}}
		tr.in.next = 1
		if client {
			c.mux.flight("sftp")
		}
		for len(p) >= lengthSize {
			n := int(min(length(p), uint32(len(p)-lengthSize)))
			message := p[lengthSize : lengthSize+n]
			p = p[lengthSize+n:]
			if len(message) == 0 {
				continue
			}
			if err := c.mux.handle(message); err != nil {
				break
			}
			for {
				c.mux.mu.Lock()
				waiting := len(c.mux.incoming)
				c.mux.mu.Unlock()
				if waiting == 0 {
					break
				}
				offer, err := c.Accept()
				if err != nil {
					break
				}
				offer.Accept()
			}
		}
		c.mux.wakeReaders()
		tr.end(ErrClosed)
		c.mux.finish(ErrClosed)
	})
}

var fuzzKey = func() xssh.Signer {
	s, err := xssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		panic(err)
	}
	return s
}()

// FuzzHandshake sends arbitrary bytes first, to a server or a client.
func FuzzHandshake(f *testing.F) {
	init := Supported().kexInit(true, true).append(nil)
	packet := func(payload []byte) []byte {
		pad := plain{}.form().padding(len(payload))
		p := append(appendUint32(nil, uint32(1+len(payload)+pad)), byte(pad))
		return append(append(p, payload...), make([]byte, pad)...)
	}
	f.Add(false, slices.Concat([]byte("SSH-2.0-x\r\n"), packet(init),
		packet(appendString([]byte{msgKexInitial}, make([]byte, 1216))),
		packet([]byte{msgNewKeys})))
	f.Add(true, slices.Concat([]byte("hello\nSSH-2.0-x\r\n"), packet(init),
		packet(appendKexReply(nil, msgKexReply, &kexReply{fuzzKey.PublicKey().Marshal(),
			[]byte("signature")}, make([]byte, 32)))))
	f.Fuzz(func(t *testing.T, client bool, p []byte) {
		var err error
		if client {
			_, err = Client(context.Background(), feedOf(p), &ClientConfig{User: "u",
				Version: "SSH-2.0-c", HostKey: func(net.Addr, xssh.PublicKey, string) error {
					return nil
				}})
		} else {
			_, err = Server(feedOf(p), &ServerConfig{Version: "SSH-2.0-s",
				HostKeys: []xssh.Signer{fuzzKey},
				NoAuth: func(xssh.ConnMetadata) (*xssh.Permissions, error) {
					return nil, errors.New("nobody")
				}})
		}
		if err == nil {
			t.Fatal("a handshake with nobody succeeded")
		}
	})
}
