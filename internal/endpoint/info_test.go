package endpoint

import (
	"testing"
	"time"

	"github.com/usftp/usftp/wire"
)

// What a host shows of a time that it was given is the same time, whatever it is read as.
func TestApart(t *testing.T) {
	at := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	shown := wire.Time(uint32(at.Unix()))
	if shown.Equal(at) {
		t.Fatal("2100 is read as 2100")
	}
	for by, want := range map[time.Duration]time.Duration{0: 0, time.Minute: time.Minute,
		-time.Minute: time.Minute, time.Second / 2: 0} {
		if got := Apart(shown.Add(by), at); got != want {
			t.Errorf("%v apart, want %v", got, want)
		}
	}
}
