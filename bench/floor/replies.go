package floor

import (
	"encoding/binary"
	"fmt"
)

// replyHeader is length, type, id and, of DATA, the payload's length; of STATUS, the code.
const replyHeader = 4 + 1 + 4 + 4

// replies counts packets in a stream without keeping them.
type replies struct {
	client *Client
	wanted byte
	header [replyHeader]byte
	have   int // bytes of header
	skip   int // bytes that are left of the packet whose header was read
}

// next reads once, and returns the packets whose headers were in it and
// their payload.
func (t *replies) next() (packets int, payload int64, err error) {
	for packets == 0 {
		n, err := t.client.read(t.client.replies)
		if err != nil {
			return 0, 0, err
		}
		for rest := t.client.replies[:n]; len(rest) > 0; {
			skipped := min(t.skip, len(rest))
			t.skip -= skipped
			rest = rest[skipped:]
			taken := copy(t.header[t.have:], rest)
			t.have += taken
			rest = rest[taken:]
			if t.have < replyHeader {
				continue
			}
			t.have = 0
			value := binary.BigEndian.Uint32(t.header[9:])
			if t.header[4] != t.wanted || t.wanted == typeStatus && value != 0 {
				return 0, 0, fmt.Errorf("reply of type %d, value %d where type %d was due",
					t.header[4], value, t.wanted)
			}
			t.skip = int(binary.BigEndian.Uint32(t.header[:])) + 4 - replyHeader
			packets++
			payload += int64(value)
		}
	}
	return packets, payload, nil
}

// end reads the rest of the last packet, so that the next reply begins on its border.
func (t *replies) end() error {
	for t.skip > 0 {
		n, err := t.client.read(t.client.replies[:min(t.skip, len(t.client.replies))])
		if err != nil {
			return err
		}
		t.skip -= n
	}
	return nil
}
