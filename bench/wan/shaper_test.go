package wan

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

func TestShaper(t *testing.T) {
	start := time.Unix(1e9, 0)
	const megabyte = 1e6
	type sent struct {
		at    time.Duration
		bytes int
	}
	type arrived struct {
		at   time.Duration
		lost bool
	}
	for _, test := range []struct {
		name   string
		shaper shaper
		sent   []sent
		want   []arrived
	}{
		{"delay alone", shaper{delay: 50 * time.Millisecond},
			[]sent{{0, 1500}, {0, 1500}, {time.Millisecond, 1500}},
			[]arrived{{at: 50 * time.Millisecond}, {at: 50 * time.Millisecond},
				{at: 51 * time.Millisecond}}},
		{"packets wait for the one before", shaper{rate: 8 * megabyte, queue: 10000},
			[]sent{{0, 1000}, {0, 1000}, {10 * time.Millisecond, 1000}},
			[]arrived{{at: time.Millisecond}, {at: 2 * time.Millisecond},
				{at: 11 * time.Millisecond}}},
		{"a full queue drops, and takes again when it has drained",
			shaper{rate: 8 * megabyte, queue: 1500},
			[]sent{{0, 1000}, {0, 1000}, {0, 1000}, {time.Millisecond, 1000}},
			[]arrived{{at: time.Millisecond}, {at: 2 * time.Millisecond}, {lost: true},
				{at: 3 * time.Millisecond}}},
		{"all is lost", shaper{loss: 1}, []sent{{0, 1}}, []arrived{{lost: true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.shaper
			s.random = rand.New(rand.NewPCG(1, 2))
			var flow time.Time
			for i, packet := range test.sent {
				arrival, ok := s.admit(start.Add(packet.at), packet.bytes, &flow)
				if ok == test.want[i].lost {
					t.Fatalf("packet %d: arrives is %t", i, ok)
				}
				if got := arrival.Sub(start); ok && got != test.want[i].at {
					t.Errorf("packet %d arrives after %s, want %s", i, got, test.want[i].at)
				}
			}
		})
	}
}

func TestShaperLosesItsShare(t *testing.T) {
	s := shaper{loss: 0.1, random: rand.New(rand.NewPCG(1, 2))}
	lost := 0
	for range 10000 {
		if _, ok := s.admit(time.Unix(1e9, 0), 1500, new(time.Time)); !ok {
			lost++
		}
	}
	if lost < 900 || lost > 1100 {
		t.Errorf("lost %d of 10000 packets at a probability of 0.1", lost)
	}
}

func TestWireBytes(t *testing.T) {
	run := func(size, segment int) []byte {
		data := make([]byte, vnetHeader+size)
		binary.NativeEndian.PutUint16(data[4:], uint16(segment))
		return data
	}
	for _, test := range []struct{ size, segment, want int }{
		{0, 0, 0},
		{40, 1448, 40},
		{1500, 0, 1500},
		{1500, 1448, 1500},
		{52 + 2*1448, 1448, 2 * 1500},
		{52 + 2*1448 + 1, 1448, 2*1500 + 53},
	} {
		if got := wireBytes(run(test.size, test.segment)); got != test.want {
			t.Errorf("%d bytes in segments of %d: %d on the wire, want %d", test.size, test.segment,
				got, test.want)
		}
	}
}

// TestShaperCapsAConnection: each connection has a rate of its own below the link's, and the link's
// holds for all of them.
func TestShaperCapsAConnection(t *testing.T) {
	start := time.Unix(1e9, 0)
	const megabyte = 1e6
	s := shaper{rate: 24 * megabyte, flow: 8 * megabyte, queue: 1 << 30}
	var first, second time.Time
	for i, packet := range []struct {
		flow *time.Time
		want time.Duration
	}{
		{&first, 3 * time.Millisecond}, {&first, 6 * time.Millisecond},
		{&second, 3 * time.Millisecond}, {&second, 6 * time.Millisecond},
		{&first, 9 * time.Millisecond},
		{new(time.Time), 6 * time.Millisecond},
	} {
		arrival, ok := s.admit(start, 3000, packet.flow)
		if got := arrival.Sub(start); !ok || got != packet.want {
			t.Errorf("packet %d arrives after %s, want %s", i, got, packet.want)
		}
	}
}
