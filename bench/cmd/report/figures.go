package main

import (
	"fmt"

	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
)

// scale is how a figure of a row is computed, compared and shown.
type scale struct {
	of    func(result.Run) float64
	lower bool // less is better
	show  func(float64) string
	unit  string // shown by a chart after the figure, and by a table in its head
}

// briefFile is the size below which a file's time says more than its rate.
const briefFile = 10e6

// scale picks the scale that suits the row.
func (m measuredRow) scale(figure rows.Figure) scale {
	switch {
	case figure == rows.RoundTrips:
		return scale{roundTrips, true, number("%.0f"), "round trips"}
	case figure == rows.Carried:
		return scale{func(r result.Run) float64 { return carried(r) / 1e6 }, true,
			number("%.1f MB"), ""}
	case figure == rows.PeakMemory:
		return scale{func(r result.Run) float64 { return peak(r) / 1024 }, true,
			number("%.1f MiB"), ""}
	case figure == rows.Processor:
		return scale{perGiB(processor), true, number("%.2f s"), ""}
	case m.row.Files > 0:
		return scale{func(r result.Run) float64 {
			return float64(r.Bytes/m.row.Bytes) / r.Seconds
		}, false, number("%.0f files/s"), ""}
	case m.row.InSeconds || m.row.Bytes < briefFile:
		return scale{seconds, true, number("%.2f s"), ""}
	}
	return scale{rate, false, number("%.0f MB/s"), ""}
}

func number(format string) func(float64) string {
	return func(value float64) string { return fmt.Sprintf(format, value) }
}

// goodness converts a figure to one of which more is better.
func (s scale) goodness(value float64) float64 {
	if s.lower && value > 0 {
		return 1 / value
	}
	return value
}

// advantage returns how many times as good one is as the other: the median over the rounds that
// both ran.
func (s scale) advantage(one, other figures) (float64, bool) {
	return ratio(one, other, func(r result.Run) float64 { return s.goodness(s.of(r)) })
}
