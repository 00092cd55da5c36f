package bottleneck

import (
	"testing"
	"time"
)

func TestVerdict(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, test := range []struct {
		name string
		Evidence
		want string
	}{
		{"too short", Evidence{Elapsed: 900 * ms, cpu: 900 * ms, processors: 1}, ""},
		{"busy", Evidence{Elapsed: 10 * s, cpu: 9 * s, processors: 1}, Processor},
		{"one of two processors busy", Evidence{Elapsed: 10 * s, cpu: 9 * s, processors: 2}, ""},
		{"nobody knows the processor", Evidence{Elapsed: 10 * s, cpu: -1, processors: 1}, ""},
		{"a slow disk", Evidence{Elapsed: 10 * s, Local: 8 * s, cpu: s, processors: 1, samples: 9,
			ping: 9 * ms, answer: 900 * ms}, Disk},
		{"full windows", Evidence{Elapsed: 10 * s, bytes: 190e6, Windows: 20e6, Far: true,
			processors: 1, samples: 9, ping: s, answer: 2 * s}, Window},
		{"a narrow link", Evidence{Elapsed: 10 * s, bytes: 10e6, Windows: 20e6, Far: true,
			processors: 1, samples: 9, ping: 2 * s, answer: 2200 * ms}, Link},
		{"a slow server", Evidence{Elapsed: 10 * s, bytes: 10e6, Windows: 20e6, Far: true,
			processors: 1, samples: 9, ping: s, answer: 9 * s}, Server},
		{"a slow server near by", Evidence{Elapsed: 10 * s, bytes: 10e6, processors: 1, samples: 9,
			ping: 9 * ms, answer: 90 * ms}, Server},
		{"both quick", Evidence{Elapsed: 10 * s, bytes: 10e9, processors: 1, samples: 9, ping: ms,
			answer: 9 * ms}, ""},
		{"nobody to ask", Evidence{Elapsed: 10 * s, bytes: 10e6, Windows: 20e6, Far: true,
			processors: 1}, ""},
		{"a limit", Evidence{Elapsed: 10 * s, bytes: 10e6, Local: 9 * s, Limit: 1e6, processors: 1},
			RateLimit},
		{"a limit most of the time", Evidence{Elapsed: 10 * s, bytes: 6e6, held: 6 * s, Local: 9 * s,
			Limit: 1e6, processors: 1}, RateLimit},
		{"a limit out of reach", Evidence{Elapsed: 10 * s, bytes: 10e6, Local: 9 * s, Limit: 9e6,
			processors: 1}, Disk},
	} {
		if got := test.verdict(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestBottleneckOfATree(t *testing.T) {
	var b Sum
	if got := b.Verdict(0); got != "" {
		t.Errorf("of nothing %q", got)
	}
	b.Add(Link, 40)
	b.Add("", 10)
	b.Add(Server, 60)
	// of a thousand, most were in small files
	for bytes, want := range map[int64]string{110: Server, 1000: ""} {
		if got := b.Verdict(bytes); got != want {
			t.Errorf("of %d bytes %q, want %q", bytes, got, want)
		}
	}
}
