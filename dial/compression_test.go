package dial

import (
	"strings"
	"testing"
	"time"
)

// Advice is given only where the measurements leave no doubt.
func TestCompressionAdvice(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plain, packed  int64
		spent, elapsed time.Duration
		rate           float64
		conns          int64
		received       bool
		says           string
	}{
		"a fast link": {100e6, 30e6, 6 * time.Second, 7 * time.Second, 100e6, 1, false,
			"compressing took 6.0 s and made 30 MB of 100 MB, which the link carries as they are in 1.0 s"},
		"a slow link":    {100e6, 30e6, 6 * time.Second, 30 * time.Second, 1e6, 1, false, ""},
		"about the same": {100e6, 30e6, 6 * time.Second, 7 * time.Second, 16e6, 1, false, ""},
		"a slow host":    {100e6, 30e6, 6 * time.Second, 60 * time.Second, 100e6, 1, false, ""},
		"several":        {100e6, 30e6, 6 * time.Second, 7 * time.Second, 100e6, 4, false, ""},
		"unknown rate":   {100e6, 30e6, 6 * time.Second, 7 * time.Second, 0, 1, false, ""},
		"short":          {10e6, 3e6, time.Second / 2, time.Second, 100e6, 1, false, ""},
		"in vain":        {100e6, 99e6, 6 * time.Second, 60 * time.Second, 1e6, 1, false, "hardly smaller"},
		"received":       {100e6, 30e6, 2 * time.Second, 3 * time.Second, 100e6, 1, true, ""},
		"received in vain": {1e9, 1e9, 2 * time.Second, 30 * time.Second, 0, 1, true,
			"decompressing took 2.0 s and made it hardly smaller"},
	} {
		c := new(Compression)
		for range leastRate * min(1, int(test.rate)) {
			c.rates = append(c.rates, test.rate)
		}
		for range test.conns {
			counts := c.counts()
			way := &counts.Sent
			if test.received {
				way = &counts.Received
			}
			way.Plain.Store(test.plain / test.conns)
			way.Packed.Store(test.packed / test.conns)
			way.Spent.Store(int64(test.spent) / test.conns)
			way.First.Store(1)
			way.Last.Store(1 + int64(test.elapsed))
		}
		if says := c.Advice(); !strings.Contains(says, test.says) || (says == "") != (test.says == "") {
			t.Errorf("%s: %q", name, says)
		}
	}
}
