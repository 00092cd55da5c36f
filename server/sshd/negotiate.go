package sshd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/cpu"

	"github.com/usftp/usftp/wire"
)

// serverVersion is the server's version line (RFC 4253, section 4.2).
const serverVersion = "SSH-2.0-usftp"

// fastCiphers are those that a processor with instructions for AES does several times as fast as
// the others.
var fastCiphers = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM}

// hasAES tells whether the processor has such instructions.
var hasAES = cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ || cpu.ARM64.HasAES && cpu.ARM64.HasPMULL ||
	cpu.S390X.HasAESGCM

const (
	// overture is how long the server waits to hear what a client can do before it says so itself.
	// What takes longer comes over a link that is slower than any cipher.
	overture = 20 * time.Millisecond

	// maxOverture bounds what is kept meanwhile: a version line and a packet (RFC 4253, sections
	// 4.2 and 6.1).
	maxOverture = 255 + 35000
)

// listenFirst exchanges version lines and hears the client's KEXINIT. It tells whether the client
// is one that would rather take a slow cipher although it knows a fast one: the order of the client
// decides (RFC 4253, section 7.1), and OpenSSH's begins with chacha20-poly1305, whatever the
// processors. To such a client only the fast ones are to be offered.
//
// The connection that it returns has the overture still to come, for x/crypto/ssh to hear.
func listenFirst(conn net.Conn, deadline time.Time) (net.Conn, bool, error) {
	if _, err := conn.Write([]byte(serverVersion + "\r\n")); err != nil {
		return nil, false, err
	}
	r := &replay{Conn: conn, skip: len(serverVersion) + 2}
	defer conn.SetReadDeadline(deadline)
	complete, err := r.hear(func(heard []byte) bool { return bytes.IndexByte(heard, '\n') >= 0 })
	if err != nil || !complete {
		return r, false, err
	}
	if !bytes.HasPrefix(r.heard, []byte("SSH-2.0-OpenSSH_")) {
		return r, false, nil
	}
	conn.SetReadDeadline(time.Now().Add(overture))
	complete, err = r.hear(func(heard []byte) bool {
		_, ok := firstPacket(heard)
		return ok
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return r, false, nil
	}
	packet, _ := firstPacket(r.heard)
	return r, complete && knowsFastCiphers(packet), err
}

// replay is a connection whose first bytes have been read already, and whose version line has been
// sent.
type replay struct {
	net.Conn
	heard []byte
	skip  int
}

// hear reads until there is enough. It gives up where there is more than an overture can have; the
// rest is for x/crypto/ssh to judge.
func (r *replay) hear(enough func([]byte) bool) (complete bool, err error) {
	buf := make([]byte, 4096)
	for !enough(r.heard) {
		if len(r.heard) > maxOverture {
			return false, nil
		}
		n, err := r.Conn.Read(buf)
		r.heard = append(r.heard, buf[:n]...)
		if err != nil {
			return enough(r.heard), err
		}
	}
	return true, nil
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.heard) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.heard)
	if r.heard = r.heard[n:]; len(r.heard) == 0 {
		r.heard = nil
	}
	return n, nil
}

func (r *replay) Write(p []byte) (int, error) {
	skipped := min(r.skip, len(p))
	if r.skip -= skipped; skipped == len(p) {
		return len(p), nil
	}
	n, err := r.Conn.Write(p[skipped:])
	return skipped + n, err
}

// firstPacket returns the payload of the packet behind the version line, when it is there as a
// whole.
func firstPacket(heard []byte) (payload []byte, ok bool) {
	_, rest, found := bytes.Cut(heard, []byte("\n"))
	if !found || len(rest) < 5 {
		return nil, false
	}
	length, padding := binary.BigEndian.Uint32(rest), uint32(rest[4])
	if length > maxOverture || length < padding+1 {
		return nil, true // none, and waiting will not make it one
	}
	if uint32(len(rest)) < 4+length {
		return nil, false
	}
	return rest[5 : 4+length-padding], true
}

// knowsFastCiphers looks into KEXINIT (RFC 4253, section 7.1): both ways, the client must know one
// of the fast ciphers.
func knowsFastCiphers(packet []byte) bool {
	const kexInit, cookie = 20, 16
	if len(packet) < 1+cookie || packet[0] != kexInit {
		return false
	}
	r := wire.NewReader(packet[1+cookie:])
	r.Bytes() // key exchanges
	r.Bytes() // host keys
	for range 2 {
		known := strings.Split(r.String(), ",")
		if !slices.ContainsFunc(fastCiphers,
			func(c string) bool { return slices.Contains(known, c) }) {
			return false
		}
	}
	return r.Err() == nil
}
