package dial

import (
	"encoding/binary"
	"net"

	"golang.org/x/crypto/ssh"
)

const (
	// headSize is the size of x/crypto/ssh's write buffer. A packet that does not fit
	// comes as two writes: exactly this much, and then all the rest.
	headSize = 4096
	// sealSize is what AES-GCM adds to a packet of SSH: RFC 5647, 7.2: the length
	// before it and the tag after it.
	sealSize = 4 + 16
	// maxSealed is more than x/crypto/ssh ever seals at once.
	maxSealed = 512 << 10
)

// join makes Write put the two writes of a packet back together, where the cipher lets
// the length be seen: one system call a packet instead of two, and one segment instead
// of a small one and a large one.
func (s *socket) join(algorithms ssh.NegotiatedAlgorithms) {
	if c := algorithms.Write.Cipher; c != ssh.CipherAES128GCM && c != ssh.CipherAES256GCM {
		return
	}
	if _, ok := s.Conn.Conn.(*net.TCPConn); ok { // what has writev
		s.joins.Store(true)
	}
}

// Write is called by one goroutine at a time: the transport holds a lock.
func (s *socket) Write(p []byte) (int, error) {
	if len(s.head) > 0 {
		s.pieces = append(s.pieces[:0], s.head, p)
		head := int64(len(s.head))
		s.head = s.head[:0]
		pieces := s.pieces // WriteTo uses it up
		n, err := pieces.WriteTo(s.Conn.Conn)
		clear(s.pieces)
		return int(max(n-head, 0)), err
	}
	// The length says that more of this packet is certain to follow.
	if len(p) == headSize && s.joins.Load() {
		if total := sealSize + uint64(binary.BigEndian.Uint32(p)); total > headSize && total <= maxSealed {
			s.head = append(s.head, p...)
			return len(p), nil
		}
	}
	return s.Conn.Write(p)
}
