package ui

import "testing"

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1": 1, "10B": 10, "5kB": 5000, "1.5KiB": 1536,
		"2 GB": 2e9, "1GiB": 1 << 30, "1TiB": 1 << 40, "-1": 0, "1e30": 0, "0": 0, "NaN": 0,
		"5 X": 0, "KB": 0, "": 0} {
		if got, err := ParseSize(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
}
