package lograte_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server/internal/lograte"
)

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lograte.Limit
		take := func(tries, want int) (omitted int) {
			t.Helper()
			got := 0
			for range tries {
				if ok, n := l.Take(); ok {
					got++
					omitted += n
				}
			}
			if got != want {
				t.Errorf("%d lines of %d, want %d", got, tries, want)
			}
			return omitted
		}
		take(lograte.Burst, lograte.Burst)
		take(7, 0)
		if n := l.Omitted(); n != 7 {
			t.Errorf("%d were omitted", n)
		}
		time.Sleep(3*lograte.Pause + lograte.Pause/2)
		if n := take(5, 3); n != 7 {
			t.Errorf("the next line tells of %d", n)
		}
		if n := l.Omitted(); n != 2 {
			t.Errorf("%d were omitted since", n)
		}
		time.Sleep(time.Hour)
		take(2*lograte.Burst, lograte.Burst)
	})
}
