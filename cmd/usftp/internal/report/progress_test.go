package report

import (
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/transfer"
)

// The rate follows what happens. At first it is the average so far, and on a dead link it falls to
// zero.
func TestMeter(t *testing.T) {
	t.Parallel()
	var m meter
	const tick = 200 * time.Millisecond
	at, bytes := time.Duration(0), int64(0)
	run := func(ticks int, each int64) {
		for range ticks {
			at, bytes = at+tick, bytes+each
			m.add(bytes, at)
		}
	}
	near := func(when string, want float64) {
		t.Helper()
		if m.rate < want*0.9 || m.rate > want*1.1 {
			t.Errorf("%s the rate is %.0f, want about %.0f", when, m.rate, want)
		}
	}
	run(1, 0)
	run(9, 200)
	near("after a slow first moment", 900)
	run(100, 200)
	near("in the steady state", 1000)
	run(100, 2000)
	near("ten times as fast, a while later,", 10000)
	run(30, 0)
	if m.rate != 0 {
		t.Errorf("after 6 s without a byte the rate is %.0f", m.rate)
	}
	at -= 5 * time.Second // it was a pause
	run(2, 200)
	near("after a pause", 1000)
	m.finish(bytes, at)
	near("in the end", float64(bytes)/at.Seconds())

	// Bytes that an earlier copy had sent count as present, not as sent.
	m, at, bytes = meter{}, 0, 1<<40
	m.skip(bytes)
	run(10, 200)
	near("after going on from much", 1000)
	m.finish(bytes, at)
	near("in the end, after going on from much,", 1000)
	if m.bytes != 1<<40+2000 {
		t.Errorf("%d bytes are there", m.bytes)
	}
}

// On a narrow terminal numbers are left out, and never cut.
func TestNarrow(t *testing.T) {
	t.Parallel()
	l := &progressLine{name: "name", size: 20_000_000}
	l.meter.add(4_990_000, time.Second)
	for width, want := range map[int]string{
		80: "name                          24%   4.99 MB of 20.0 MB   4.99 MB/s 00:03 left",
		50: "name 24% 4.99 MB of 20.0 MB 4.99 MB/s 00:03 left",
		46: "24% 4.99 MB of 20.0 MB 4.99 MB/s 00:03 left",
		40: "24% 4.99 MB of 20.0 MB 4.99 MB/s",
		26: "24% 4.99 MB of 20.0 MB",
		20: "24% 4.99 MB/s",
		7:  "24%",
		1:  "",
	} {
		if got := l.text(width)[0]; strings.Join(strings.Fields(got), " ") !=
			strings.Join(strings.Fields(want), " ") || len(got) >= width {
			t.Errorf("with %d columns it shows %q, want %q", width, got, want)
		}
	}
	l.tree, l.root = &transfer.Totals{Files: 12,
		PlannedTotals: transfer.PlannedTotals{PlannedFiles: 30, Complete: true}}, "name"
	for width, want := range map[int]string{
		40: "12 of 30 files 24% 4.99 MB of 20.0 MB",
		12: "24%",
	} {
		if got := l.text(width)[0]; got != want {
			t.Errorf("with %d columns a tree shows %q, want %q", width, got, want)
		}
	}
}

// What is done instead of copying is named in place of a rate.
func TestPhases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		position transfer.Position
		totals   *transfer.Totals
		want     string
	}{
		{transfer.Position{Bytes: 50, Phase: transfer.PhaseWaiting}, nil,
			"name 100% 50 B of 50 B waiting for the host"},
		{transfer.Position{Bytes: 50, Phase: transfer.PhaseVerifying, Checked: 20}, nil,
			"name 100% 50 B of 50 B verifying 40%"},
		// while another file of a tree arrives, the rate counts
		{transfer.Position{Bytes: 40, Phase: transfer.PhaseVerifying},
			&transfer.Totals{PlannedTotals: transfer.PlannedTotals{PlannedFiles: 3,
				PlannedBytes: 50, Complete: true}, Files: 2},
			"name 2 of 3 files 80% 40 B of 50 B 40 B/s 00:00 left"},
		{transfer.Position{Bytes: 50, Phase: transfer.PhaseDeleting},
			&transfer.Totals{PlannedTotals: transfer.PlannedTotals{PlannedFiles: 3,
				PlannedBytes: 50, Complete: true}, Files: 3},
			"name 3 of 3 files 100% 50 B of 50 B deleting"},
	} {
		l := &progressLine{name: "name", size: 50}
		test.position.Elapsed = time.Second
		l.update(transfer.Event{Kind: transfer.Progress, Position: test.position,
			Totals: test.totals})
		if got := strings.Join(strings.Fields(l.text(100)[0]), " "); got != test.want {
			t.Errorf("%+v: it shows %q, want %q", test.position, got, test.want)
		}
	}
}

func TestPercentOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes, size int64
		want        int
	}{{0, 0, 100}, {0, 10, 0}, {999, 1000, 99}, {1000, 1000, 100}, {1<<50 - 1, 1 << 50, 99}} {
		if got := percentOf(c.bytes, c.size); got != c.want {
			t.Errorf("percentOf(%d, %d) = %d, want %d", c.bytes, c.size, got, c.want)
		}
	}
}
