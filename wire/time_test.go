package wire

import (
	"testing"
	"time"
)

// A time decades ahead is what it is; one from 2096 on stands for one from 1960 on.
func TestTime(t *testing.T) {
	at := func(year int) time.Time { return time.Date(year, 3, 1, 0, 0, 0, 0, time.UTC) }
	for _, want := range []time.Time{time.Unix(0, 0), at(2037), at(2050), at(2095),
		time.Unix(-1, 0), at(1960), at(1961)} {
		if got := Time(uint32(want.Unix())); !got.Equal(want) {
			t.Errorf("%v is taken for %v", want, got)
		}
	}
	if got := Time(uint32(at(2100).Unix())); got.Year() != 1964 {
		t.Errorf("2100 is taken for %v", got)
	}
}
