package scp

import (
	"strings"
	"testing"
)

// FuzzLines: no line does harm, and what was understood means the same when it is written again.
func FuzzLines(f *testing.F) {
	for _, line := range []string{"C0644 5 name", "D7777 0 a b", "C0644 -1 x", "T1 0 2 0", "T", "C",
		"C 1 2", "T9223372036854775807 0 -1 999999", "D99999 0 x", "C0644 5 "} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if line == "" || strings.Contains(line, "\n") {
			return // the readers find the ends of lines, and take no empty ones
		}
		if h, err := ParseHeader(line); err == nil {
			again, err := ParseHeader(strings.TrimSuffix(h.String(), "\n"))
			if err != nil || again != h || h.Size < 0 || h.Mode > 0o7777 {
				t.Errorf("%q is %+v, and then %+v, %v", line, h, again, err)
			}
		}
		if times, err := ParseTimes(line); err == nil {
			again, err := ParseTimes(strings.TrimSuffix(times.String(), "\n"))
			if err != nil || again != times {
				t.Errorf("%q is %+v, and then %+v, %v", line, times, again, err)
			}
		}
	})
}
