package sync

import (
	"testing"
	"time"
)

// --newer takes what touch -d takes, and an age.
func TestParseMoment(t *testing.T) {
	at := func(hour, minute, second int) time.Time {
		return time.Date(2026, 1, 31, hour, minute, second, 0, time.Local)
	}
	for text, want := range map[string]time.Time{
		"2026-01-31": at(0, 0, 0), "2026-01-31T12:34:56": at(12, 34, 56),
		"2026-01-31 12:34:56": at(12, 34, 56), "2026-01-31 12:34": at(12, 34, 0),
		"2026-01-31T12:34:56Z": time.Date(2026, 1, 31, 12, 34, 56, 0, time.UTC),
		"@1700000000":          time.Unix(1700000000, 0),
	} {
		if got, err := parseMoment(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, age := range map[string]time.Duration{"36h": 36 * time.Hour, "7d": 7 * 24 * time.Hour} {
		before := time.Now()
		got, err := parseMoment(text)
		if after := time.Now(); err != nil || got.Before(before.Add(-age)) ||
			got.After(after.Add(-age)) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "soon", "-1h", "-7d", "@soon", "7"} {
		if got, err := parseMoment(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
