package interop_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// lists are what a KEXINIT offers: key exchanges, host keys, ciphers and MACs.
type lists [4][]string

var listNames = [4]string{"kex", "hostkey", "cipher", "mac"}

// probe reads what the other end of a connection offers, and closes the connection.
func probe(conn net.Conn) (l lists, err error) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err = io.WriteString(conn, "SSH-2.0-probe\r\n"); err != nil {
		return l, err
	}
	r := bufio.NewReaderSize(conn, 64<<10)
	for line := ""; !strings.HasPrefix(line, "SSH-"); {
		if line, err = r.ReadString('\n'); err != nil {
			return l, err
		}
	}
	head := make([]byte, 5)
	if _, err = io.ReadFull(r, head); err != nil {
		return l, err
	}
	p := make([]byte, binary.BigEndian.Uint32(head)-1)
	if _, err = io.ReadFull(r, p); err != nil {
		return l, err
	}
	if p[0] != 20 {
		return l, errors.New("the peer does not begin with KEXINIT")
	}
	p = p[17:]
	names := func() []string {
		n := binary.BigEndian.Uint32(p)
		list := string(p[4 : 4+n])
		p = p[4+n:]
		return strings.Split(list, ",")
	}
	l[0], l[1], l[2] = names(), names(), names()
	names() // the other direction's
	l[3] = names()
	return l, nil
}
