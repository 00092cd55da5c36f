package ssh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// transport implements RFC 4253: packets, under keys that are exchanged from time to time. One
// goroutine at a time reads; any may write.
type transport struct {
	conn     net.Conn
	client   bool
	in       *input
	out      *output
	ended    chan struct{}
	once     sync.Once
	reason   error // why it ended; set before ended is closed
	hostKeys []xssh.Signer
	// acceptHostKey decides on the server's key, once.
	acceptHostKey func(key xssh.PublicKey, algo string) error
	// afterNewKeys returns the messages that the client sends immediately after its first NEWKEYS.
	afterNewKeys func() ([][]byte, error)

	algorithms    Algorithms
	ours, theirs  []byte // version lines
	strict        bool
	session       []byte // the session's id: the first H
	hostKey       xssh.PublicKey
	hostProof     []byte // a client's: the server's signature of the first H
	negotiated    Negotiated
	exchanges     int
	serverSigAlgs []string // from EXT_INFO: RFC 8308, section 3.1; nil if the server sent none
	wantsExtInfo  bool     // from the client's first KEXINIT
	kexLimit      time.Duration
	timer         *time.Timer // of an exchange
	rekeyAfter    time.Duration
	nextRekey     *time.Timer  // nil before the login, or without a time limit
	roundTrip     atomic.Int64 // the shortest round trip seen, in nanoseconds
	login         bool         // the login is not complete
	ignored       int
	unimplemented func(seq uint32)
	// late handles other messages that arrive in the middle of a later exchange.
	late func(payload []byte) error
}

const (
	// rekeyBytes is when keys are exchanged by default: at 16 GiB AES is far from any limit, and
	// the exchange costs nothing.
	rekeyBytes = 16 << 30

	// rekeyPackets is well below the 2^31 of RFC 4253, section 9: chacha20-poly1305's nonce is the
	// sequence number, which must not come twice under one key.
	rekeyPackets = 1 << 28

	// kexTimeout limits a key exchange after the first (CVE-2025-22869).
	kexTimeout = 2 * time.Minute

	// Limits before the login is complete. A login with many keys needs 100 packets.
	loginPackets   = 1000
	loginBytes     = 1 << 20
	loginExchanges = 3
	loginPing      = 1 << 10 // the answer is as long, and is held until the peer reads it

	maxVersion      = 255  // RFC 4253, section 4.2
	maxGreeting     = 1024 // lines before the server's version
	maxGreetingLine = 8 << 10
)

func newTransport(conn net.Conn, buffers *Buffers, a Algorithms, rekey int64) *transport {
	buffers = cmp.Or(buffers, new(Buffers))
	if rekey <= 0 {
		rekey = rekeyBytes
	}
	t := &transport{conn: conn, algorithms: a, ended: make(chan struct{}), kexLimit: kexTimeout,
		login: true}
	t.in = newInput(conn, buffers, t.ended)
	t.out = newOutput(conn, buffers, t.ended)
	t.out.limits = limits{bytes: rekey, packets: rekeyPackets}
	return t
}

// checkVersion checks our version line, given without its end.
func checkVersion(version string) error {
	software, ok := strings.CutPrefix(version, "SSH-2.0-")
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	if !ok || software == "" || len(version) > maxVersion-2 ||
		strings.ContainsFunc(software, unprintable) {
		return errors.New("ssh: RFC 4253 does not allow this version line")
	}
	return nil
}

// sendVersion sends our version, and our KEXINIT along with it.
func (t *transport) sendVersion(version string) error {
	t.ours = []byte(version)
	o := t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	// The version is not a packet: it goes first, unsealed.
	p := append([]byte(version), "\r\n"...)
	copy(o.stage.grow(len(p), nil), p)
	o.stage.size = len(p)
	o.startKex()
	return o.flushLocked()
}

// readVersion reads the peer's version. A server may send other lines first: RFC 4253, section 4.2.
func (t *transport) readVersion() error {
	for range maxGreeting {
		most := maxVersion
		if t.client {
			most = maxGreetingLine
		}
		line, err := t.in.line(most)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte("SSH-")) {
			if len(line) > maxVersion || bytes.IndexByte(line, 0) >= 0 ||
				!bytes.HasPrefix(line, []byte("SSH-2.0-")) &&
					!bytes.HasPrefix(line, []byte("SSH-1.99-")) {
				if bytes.HasPrefix(line, []byte("SSH-1.")) {
					return errOldSSH
				}
				return errNotSSH
			}
			t.theirs = slices.Clone(line)
			return nil
		}
		if !t.client || t.in.total > loginBytes {
			return errNotSSH
		}
	}
	return errNotSSH
}

// proposal returns our KEXINIT, and starts the exchange's timer. The output calls it, holding its
// lock.
func (t *transport) proposal() []byte {
	a := t.algorithms
	if t.exchanges > 0 {
		// The server must show the same key as before.
		a.HostKeys = append([]string{t.negotiated.HostKey},
			slices.DeleteFunc(slices.Clone(a.HostKeys),
				func(n string) bool { return n == t.negotiated.HostKey })...)
		t.timer = time.AfterFunc(t.kexLimit, func() {
			t.end(fmt.Errorf("ssh: an exchange of keys took longer than %v: %w", t.kexLimit,
				os.ErrDeadlineExceeded))
		})
	}
	k := a.kexInit(t.client, t.exchanges == 0)
	return k.append(nil)
}

// send sends a message that can wait.
func (t *transport) send(message []byte) error {
	return t.out.message(context.Background(), message)
}

// rekey starts an exchange of keys unless one is under way.
func (t *transport) rekey() error {
	o := t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	o.finish()
	o.startKex()
	return o.flushLocked()
}

// scheduleRekey starts an exchange of keys whenever the last one is too long ago. The caller holds
// the output's lock.
func (t *transport) scheduleRekey() {
	if t.rekeyAfter > 0 {
		t.nextRekey = time.AfterFunc(t.rekeyAfter, func() { t.rekey() })
	}
}

// end ends the connection at once. Only the first reason counts; if we are closing, that is the
// reason even if the peer hangs up first.
func (t *transport) end(err error) {
	t.once.Do(func() {
		t.out.mu.Lock()
		if t.out.closeErr != nil {
			err = t.out.closeErr
		}
		if t.nextRekey != nil {
			t.nextRekey.Stop()
			t.nextRekey = nil
		}
		t.out.mu.Unlock()
		t.reason = err
		close(t.ended)
		t.out.abort(err) // before a Write fails since the connection is closed here
		t.conn.Close()
	})
}

// endReason returns why the connection ended, or nil while it lives.
func (t *transport) endReason() error {
	select {
	case <-t.ended:
		return t.reason
	default:
		return nil
	}
}

// read returns the next message that the transport does not handle itself.
func (t *transport) read() ([]byte, error) {
	for {
		p, err := t.in.read()
		if err != nil {
			return nil, err
		}
		switch {
		case t.login && (t.in.packets > loginPackets || t.in.total > loginBytes):
			return nil, &ProtocolError{"too much data before the login"}
		case !t.login && t.out.limits.reached(t.in.bytes, t.in.n):
			if err := t.rekey(); err != nil {
				return nil, err
			}
		}
		switch p[0] {
		case msgKexInit:
			if err := t.exchange(p); err != nil {
				return nil, err
			}
		case msgExtInfo:
			// RFC 8308, section 2.4, allows it in two places. The later one replaces the earlier.
			if !t.client {
				continue
			}
			if t.serverSigAlgs, err = parseExtInfo(p); err != nil {
				return nil, err
			}
		case msgPing:
			r := body(p, msgPing)
			data := r.Bytes()
			if err := r.parsed(); err != nil {
				return nil, err
			}
			if t.login && len(data) > loginPing {
				return nil, &ProtocolError{"a ping before the login is too long"}
			}
			if err := t.out.control(appendString([]byte{msgPong}, data)); err != nil {
				return nil, err
			}
		case msgPong:
		default:
			if skip, err := t.skip(p); err != nil {
				return nil, err
			} else if !skip {
				return p, nil
			}
		}
	}
}

// skip handles messages that may come at any time: RFC 4253, section 11.
func (t *transport) skip(p []byte) (bool, error) {
	switch p[0] {
	case msgIgnore, msgDebug:
		return true, nil
	case msgUnimplemented:
		r := body(p, msgUnimplemented)
		seq := r.Uint32()
		if t.unimplemented != nil && r.Err() == nil {
			t.unimplemented(seq)
		}
		return true, nil
	case msgDisconnect:
		d, err := parseDisconnect(p)
		if err != nil {
			return false, err
		}
		return false, d
	}
	return false, nil
}

// recordRoundTrip records how long an answer took. The shortest counts.
func (t *transport) recordRoundTrip(d time.Duration) {
	if have := t.roundTrip.Load(); have == 0 || int64(d) < have {
		t.roundTrip.Store(int64(d))
	}
}
