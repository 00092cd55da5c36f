package transfer

import (
	"testing"
	"time"
)

func TestVerdict(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, test := range []struct {
		name string
		evidence
		want Bottleneck
	}{
		{"too short", evidence{elapsed: 900 * ms, cpu: 900 * ms, processors: 1}, ""},
		{"busy", evidence{elapsed: 10 * s, cpu: 9 * s, processors: 1}, BottleneckProcessor},
		{"one of two processors busy", evidence{elapsed: 10 * s, cpu: 9 * s, processors: 2}, ""},
		{"nobody knows the processor", evidence{elapsed: 10 * s, cpu: -1, processors: 1}, ""},
		{"a slow disk", evidence{elapsed: 10 * s, local: 8 * s, cpu: s, processors: 1, samples: 9,
			ping: 9 * ms, answer: 900 * ms}, BottleneckDisk},
		{"full windows", evidence{elapsed: 10 * s, bytes: 190e6, windows: 20e6, far: true,
			processors: 1, samples: 9, ping: s, answer: 2 * s}, BottleneckWindow},
		{"a narrow link", evidence{elapsed: 10 * s, bytes: 10e6, windows: 20e6, far: true,
			processors: 1, samples: 9, ping: 2 * s, answer: 2200 * ms}, BottleneckLink},
		{"a slow server", evidence{elapsed: 10 * s, bytes: 10e6, windows: 20e6, far: true,
			processors: 1, samples: 9, ping: s, answer: 9 * s}, BottleneckServer},
		{"a slow server near by", evidence{elapsed: 10 * s, bytes: 10e6, processors: 1, samples: 9,
			ping: 9 * ms, answer: 90 * ms}, BottleneckServer},
		{"both quick", evidence{elapsed: 10 * s, bytes: 10e9, processors: 1, samples: 9, ping: ms,
			answer: 9 * ms}, ""},
		{"nobody to ask", evidence{elapsed: 10 * s, bytes: 10e6, windows: 20e6, far: true,
			processors: 1}, ""},
		{"a limit", evidence{elapsed: 10 * s, bytes: 10e6, local: 9 * s, limit: 1e6, processors: 1},
			BottleneckRateLimit},
		{"a limit most of the time", evidence{elapsed: 10 * s, bytes: 6e6, held: 6 * s, local: 9 * s,
			limit: 1e6, processors: 1}, BottleneckRateLimit},
		{"a limit out of reach", evidence{elapsed: 10 * s, bytes: 10e6, local: 9 * s, limit: 9e6,
			processors: 1}, BottleneckDisk},
	} {
		if got := test.verdict(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestBottleneckOfATree(t *testing.T) {
	var b bottlenecks
	if got := b.verdict(0); got != "" {
		t.Errorf("of nothing %q", got)
	}
	b.add(BottleneckLink, 40)
	b.add("", 10)
	b.add(BottleneckServer, 60)
	// of a thousand, most were in small files
	for bytes, want := range map[int64]Bottleneck{110: BottleneckServer, 1000: ""} {
		if got := b.verdict(bytes); got != want {
			t.Errorf("of %d bytes %q, want %q", bytes, got, want)
		}
	}
}
