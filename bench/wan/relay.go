package wan

import (
	"encoding/binary"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// vnetHeader is the size of the kernel's struct virtio_net_hdr, which goes before each packet.
	vnetHeader = 10
	// largestPacket is what TUN may hand over at once: a run of segments with one header, and the
	// vnet header.
	largestPacket = vnetHeader + 65535
	// smallPacket is the size up to which packets share small buffers, so that a queue of ordinary
	// packets does not hold 64 KiB for each.
	smallPacket = 2048
	// segmentHeader is IPv4 and TCP with time stamps: what each segment of a run will carry on a
	// wire.
	segmentHeader = 20 + 32
	// mostPackets bounds the packets on their way in one direction, or of one connection where
	// these have rates of their own, beside the bytes that the queue bounds.
	mostPackets = 1 << 16
)

type packet struct {
	arrival time.Time
	data    []byte
}

// relay carries packets of one direction from src to dst until src fails, which is how closing the
// device ends it. It counts in carried the bytes that it puts on the wire.
func relay(src io.Reader, dst io.Writer, s *shaper, carried *atomic.Int64) {
	small, large := newBuffers(smallPacket), newBuffers(largestPacket)
	deliver := func(onTheWay <-chan packet) {
		for p := range onTheWay {
			time.Sleep(time.Until(p.arrival))
			// A device that is down or full drops a packet, as a wire may: TCP makes up for it.
			dst.Write(p.data)
			if cap(p.data) == smallPacket {
				small.put(p.data)
			} else {
				large.put(p.data)
			}
		}
	}
	var deliveries sync.WaitGroup
	defer deliveries.Wait()
	// Packets of one connection arrive in order. Where connections have rates of their own they do
	// not wait for each other; else they are one.
	flows := map[[12]byte]*flow{}
	defer func() {
		for _, f := range flows {
			close(f.onTheWay)
		}
	}()

	buffer := large.get()
	for {
		n, err := src.Read(buffer)
		if err != nil {
			return
		}
		var key [12]byte
		if s.flow > 0 {
			key = connection(buffer[:n])
		}
		f := flows[key]
		if f == nil {
			f = &flow{onTheWay: make(chan packet, mostPackets)}
			flows[key] = f
			deliveries.Go(func() { deliver(f.onTheWay) })
		}
		size := wireBytes(buffer[:n])
		arrival, ok := s.admit(time.Now(), size, &f.idle)
		if !ok || len(f.onTheWay) == cap(f.onTheWay) {
			continue
		}
		carried.Add(int64(size))
		data := buffer[:n]
		if n <= smallPacket {
			data = small.get()
			data = data[:copy(data, buffer[:n])]
		} else {
			buffer = large.get()
		}
		f.onTheWay <- packet{arrival, data}
	}
}

// flow is one connection's part of a link.
type flow struct {
	onTheWay chan packet
	idle     time.Time // when its last packet so far has been sent
}

// connection names the connection of an IPv4 packet without options: its addresses and ports.
func connection(data []byte) (key [12]byte) {
	const addresses = vnetHeader + 12
	if len(data) >= addresses+len(key) {
		copy(key[:], data[addresses:])
	}
	return key
}

// buffers are those of one size that are free.
type buffers struct {
	size int
	free chan []byte
}

// freeBuffers is as many as are kept for the next burst.
const freeBuffers = 1024

func newBuffers(size int) buffers { return buffers{size, make(chan []byte, freeBuffers)} }

func (b buffers) get() []byte {
	select {
	case buffer := <-b.free:
		return buffer
	default:
		return make([]byte, b.size)
	}
}

func (b buffers) put(buffer []byte) {
	select {
	case b.free <- buffer[:b.size]:
	default:
	}
}

// wireBytes is the size of a packet on a wire, where each segment of a run has a header of its own.
func wireBytes(data []byte) int {
	size := len(data) - vnetHeader
	if size < segmentHeader {
		return max(size, 0)
	}
	segment := int(binary.NativeEndian.Uint16(data[4:])) // virtio_net_hdr.gso_size
	if segment == 0 {
		return size
	}
	segments := (size - segmentHeader + segment - 1) / segment
	return size + max(segments-1, 0)*segmentHeader
}
