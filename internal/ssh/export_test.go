package ssh

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"

	xssh "golang.org/x/crypto/ssh"
)

// Grown returns by how much a connection's windows have grown.
func Grown(c *Conn) int64 {
	c.mux.growth.mu.Lock()
	defer c.mux.growth.mu.Unlock()
	return c.mux.growth.taken
}

// Rekey starts a key exchange unless one is in progress. It does not wait for the end.
func (c *Conn) Rekey() error { return c.t.rekey() }

// Strict reports whether strict key exchange, the defence against Terrapin, is in effect.
func (c *Conn) Strict() bool { return c.t.strict }

// RekeyAndGoOn starts a key exchange and lets data follow our KEXINIT under the old keys, which RFC
// 4253, section 7.1, forbids but asyncssh did.
func RekeyAndGoOn(c *Conn) error {
	o := c.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finish()
	o.startKex()
	o.kexing = false
	return o.flushLocked()
}

// LimitPackets makes a connection exchange keys after n packets in either direction. It must be
// called before the login is complete.
func LimitPackets(c *Conn, n uint64) { c.t.out.limits.packets = n }

// OccupyFirst opens a channel, so that the peer's first one gets number 1. It takes requests, and
// answers none.
func OccupyFirst(conn xssh.ConnMetadata) {
	m := conn.(*Conn).mux
	ch := newChannel(m)
	close(ch.opened)
	m.add(ch)
}

const (
	MaxUser   = maxUser
	MaxSecret = maxSecret
	LoginPing = loginPing
)

// FirstWords is what a client sends first: its version, and its KEXINIT, to which more is added as
// a key exchange.
func FirstWords(more string) []byte {
	k := Supported().kexInit(true, true)
	k.kex = append(k.kex, more)
	return append([]byte("SSH-2.0-x\r\n"), framed(k.append(nil))...)
}

// FramedLogin is a login without encryption: each request comes as a user and a method with its own
// part.
func FramedLogin(requests ...[3]string) []byte {
	messages := [][]byte{appendString([]byte{msgServiceRequest}, serviceUserAuth)}
	for _, r := range requests {
		messages = append(messages,
			(&authRequest{r[0], serviceConnection, r[1], []byte(r[2])}).append(nil))
	}
	return framed(messages...)
}

// FramedPing is a ping before the login, without encryption.
func FramedPing(data string) []byte { return framed(Ping([]byte(data))) }

// Ping is ping@openssh.com, whose answer holds the same data.
func Ping(data []byte) []byte { return appendString([]byte{msgPing}, string(data)) }

// KeyQuery is the part of the method publickey that asks about a key.
func KeyQuery(key xssh.PublicKey) string {
	return string((&keyRequest{false, key.Type(), key.Marshal(), nil}).append(nil))
}

// PasswordAttempt is the part of the method password.
func PasswordAttempt(password string) string {
	return string(appendString(appendBool(nil, false), password))
}

// LoginOver lets a client log in without encryption. A password is handed to check. Permissions are
// those of the certificate key, and the user "quoted" gets an error that quotes it.
func LoginOver(conn net.Conn, key xssh.PublicKey, check func(password []byte) error) error {
	l := loginServerOn(conn, key)
	l.callbacks.PasswordCallback = func(_ xssh.ConnMetadata, p []byte) (*xssh.Permissions, error) {
		return nil, check(p)
	}
	l.callbacks.PublicKeyCallback = func(conn xssh.ConnMetadata, k xssh.PublicKey) (
		*xssh.Permissions, error) {
		cert := k.(*xssh.Certificate)
		if conn.User() == "quoted" {
			return nil, fmt.Errorf("a certificate for %q", cert.ValidPrincipals)
		}
		return &cert.Permissions, nil
	}
	_, err := l.run()
	l.end(ErrClosed)
	return err
}

// Inject sends any message, allowed or not, as a hostile peer would.
func Inject(c *Conn, message []byte) error {
	o := c.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.closing || len(message) > maxData || o.stage.size > maxStaged {
		return o.err
	}
	o.finish()
	o.put(message)
	return o.flushLocked()
}

// ExchangeAndMore sends a client's half of a key exchange, which offers a cipher and a MAC, and
// more in one piece: messages under the old keys, and bytes as they are.
func ExchangeAndMore(c *Conn, public []byte, cipher, mac string, messages [][]byte,
	begun []byte) error {
	o := c.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finish()
	c.t.algorithms.Ciphers, c.t.algorithms.MACs = []string{cipher}, []string{mac}
	for _, message := range append([][]byte{o.propose(),
		appendString([]byte{msgKexInitial}, string(public)), {msgNewKeys}}, messages...) {
		o.put(message)
	}
	copy(o.stage.grow(len(begun), nil), begun)
	o.stage.size += len(begun)
	return o.flushLocked()
}

// Goodbye is a message that ends a connection in order.
func Goodbye() []byte { return disconnectMessage(ReasonByApplication, "bye") }

// The numbers of messages that a hostile peer may choose from, with a body that each may have.
var messages = map[byte][]byte{
	msgIgnore: appendString(nil, "x"), msgUnimplemented: {0, 0, 0, 1}, msgDebug: {0},
	msgServiceRequest: appendString(nil, serviceUserAuth), msgExtInfo: {0, 0, 0, 0}, msgNewKeys: {},
	msgKexInitial: appendString(nil, "x"), msgKexReply: {}, msgUserAuthRequest: {}, 61: {},
	msgGlobalRequest: appendBool(appendString(nil, "keepalive@openssh.com"), true),
	msgPing:          appendString(nil, "ping"), msgPong: {}, 200: {},
}

// RandomMessage returns a message that may or may not be allowed.
func RandomMessage(rng *rand.Rand) []byte {
	channel := rng.Uint32N(4)
	on := func(number byte, more ...byte) []byte {
		return append(appendUint32([]byte{number}, channel), more...)
	}
	switch rng.IntN(14) {
	case 0:
		return on(msgChannelData, appendString(nil, make([]byte, rng.IntN(40<<10)))...)
	case 1:
		return on(msgChannelExtendedData, appendString([]byte{0, 0, 0, 1}, "x")...)
	case 2, 3:
		return on(msgChannelWindowAdjust, appendUint32(nil, rng.Uint32())...)
	case 4:
		return on(msgChannelEOF)
	case 5:
		return on(msgChannelClose)
	case 6:
		return on(msgChannelSuccess)
	case 7, 8:
		return (&channelRequest{channel, "ask", true, nil}).append(nil)
	case 9, 10:
		return (&channelOpen{"session", rng.Uint32N(4), 1 << 20, maxPacket, nil}).append(nil)
	case 11:
		return (&channelConfirm{channel, 5, 1 << 20, maxPacket}).append(nil)
	case 12:
		p := make([]byte, 1+rng.IntN(40))
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		return p
	}
	numbers := slices.Sorted(maps.Keys(messages))
	n := numbers[rng.IntN(len(numbers))]
	return append([]byte{n}, messages[n]...)
}

// Violation returns a message that no peer may send.
func Violation() []byte { return appendUint32([]byte{msgChannelEOF}, 9999) }

// NewKeys is a message that nobody may send out of turn.
func NewKeys() []byte { return []byte{msgNewKeys} }

// CloseTimeout is how long the end of a connection may take.
const CloseTimeout = closeTimeout

// InjectPacked sends bytes in place of a message that our own compression would make.
func InjectPacked(c *Conn, packed []byte) error {
	o := c.t.out
	o.mu.Lock()
	d := o.deflater
	o.deflater = nil
	o.mu.Unlock()
	err := Inject(c, packed)
	o.mu.Lock()
	o.deflater = d
	o.mu.Unlock()
	return err
}

// Pack compresses a message as the first of a connection.
func Pack(message []byte) []byte { return newDeflater().deflate(message) }
