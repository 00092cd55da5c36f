package endpoint

import (
	"testing"
	"time"
)

// A host's time decades ahead is what it is; one from 2096 on stands for one from 1960 on.
func TestTimesAhead(t *testing.T) {
	at := func(year int) time.Time { return time.Date(year, 3, 1, 0, 0, 0, 0, time.UTC) }
	for told, want := range map[time.Time]time.Time{at(2037): at(2037), at(2050): at(2050),
		at(2095): at(2095), time.Unix(1<<32-1, 0): time.Unix(-1, 0),
		time.Unix(at(1961).Unix()+1<<32, 0): at(1961)} {
		i := Info{Mtime: told, HasTimes: true}
		if _, mtime := i.Times(); !mtime.Equal(want) {
			t.Errorf("%v is taken for %v, want %v", told, mtime, want)
		}
	}
}
