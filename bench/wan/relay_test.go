package wan

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// device is one end of a link as the relay sees it: each Read and each Write is a packet.
type device struct {
	packets chan []byte
	got     func(packet []byte)
}

func (d *device) Read(p []byte) (int, error) {
	packet, ok := <-d.packets
	if !ok {
		return 0, io.EOF
	}
	return copy(p, packet), nil
}

func (d *device) Write(p []byte) (int, error) {
	d.got(bytes.Clone(p))
	return len(p), nil
}

func TestRelayKeepsOrderTimeAndContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, delay, rounds = 8e6, 50 * time.Millisecond, 200
		start := time.Now()
		random := rand.New(rand.NewPCG(3, 4))
		var sent [][]byte
		var due []time.Duration
		var wire time.Duration
		for range rounds {
			for _, size := range []int{vnetHeader + 1, vnetHeader + 1500, smallPacket,
				smallPacket + 1, 20000} {
				packet := make([]byte, size) // the first ten bytes stay zero: no segments
				for i := vnetHeader; i < size; i++ {
					packet[i] = byte(random.Uint32())
				}
				sent = append(sent, packet)
				wire += time.Duration(float64(size-vnetHeader) * 8 / rate * float64(time.Second))
				due = append(due, wire+delay)
			}
		}
		source := &device{packets: make(chan []byte, len(sent))}
		for _, packet := range sent {
			source.packets <- packet
		}
		close(source.packets)

		received := 0
		sink := &device{got: func(packet []byte) {
			if received == len(sent) {
				t.Fatal("more packets than were sent")
			}
			if !bytes.Equal(packet, sent[received]) {
				t.Errorf("packet %d is not what was sent", received)
			}
			if at := time.Since(start); at != due[received] {
				t.Errorf("packet %d arrived after %s, want %s", received, at, due[received])
			}
			received++
		}}
		relay(source, sink, &shaper{delay: delay, rate: rate, queue: 1 << 30, random: random},
			new(atomic.Int64))
		if received != len(sent) {
			t.Errorf("%d of %d packets arrived", received, len(sent))
		}
	})
}
