package main

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/usftp/usftp/bench/rows"
)

// chartRows are the groups of the chart: the waits that users feel. A group whose row was not
// measured is left out.
var chartRows = []struct {
	title, row string
	figure     rows.Figure
}{
	{"A long link: get 500 MB over 1 Gbit/s with a round trip of 100 ms", "long-get",
		rows.Throughput},
	{"Small files: get 2,000 files of 4 KiB with a round trip of 50 ms", "small-get-50ms",
		rows.Throughput},
	{"Time to log in: round trips before a file's first bytes", "first-byte-get", rows.RoundTrips},
	{"Processor time: the client's, per GiB received", "get", rows.Processor},
	{"One large file: get 1 GiB on one machine", "get", rows.Throughput},
}

// chartPeers is how many peers a group shows at most: the best ones, always including scp.
const chartPeers = 3

// The chart's dimensions, in SVG units.
const (
	chartWidth  = 720
	labelWidth  = 140
	valueWidth  = 170
	barHeight   = 15
	barStep     = 20
	groupHeight = 38
	headHeight  = 48
)

// The chart has no background, so that it suits GitHub's light and dark pages. Each colour is
// readable on both.
const (
	textColour = "#777777"
	peerColour = "#8391a0"
	oursColour = "#2a8a5c"
)

type bar struct {
	label, value  string
	length        float64 // of the longest in its group
	ours, ceiling bool
}

type barGroup struct {
	title string
	bars  []bar
}

func (r *report) chart() string {
	var groups []barGroup
	for _, c := range chartRows {
		i := slices.IndexFunc(r.rows, func(m measuredRow) bool { return m.row.Name == c.row })
		if i < 0 {
			continue
		}
		if bars := r.rows[i].bars(c.figure); len(bars) > 0 {
			groups = append(groups, barGroup{c.title, bars})
		}
	}
	return drawBars(groups)
}

func isScp(name string) bool { return name == "scp" || strings.HasPrefix(name, "scp -r") }

// bars returns usftp's bars, then those of its peers, best first, then the ceiling's.
func (m measuredRow) bars(figure rows.Figure) (bars []bar) {
	ours, peers, ceiling := m.sides(figure, m.figures())
	if len(ours.rounds) == 0 {
		return nil
	}
	if scp := slices.IndexFunc(peers, func(f figures) bool {
		return isScp(f.name)
	}); len(peers) > chartPeers {
		peers = slices.Concat(peers[:chartPeers-1], peers[max(scp, chartPeers-1):][:1])
	}
	kind, longest := m.scale(figure), 0.0
	all := slices.Concat([]figures{ours}, peers)
	if len(ceiling.rounds) > 0 {
		all = append(all, ceiling)
	}
	scp := slices.IndexFunc(all, func(f figures) bool { return isScp(f.name) })
	for _, f := range all {
		value := f.median(kind.of)
		b := bar{label: f.name, value: kind.show(value), length: kind.goodness(value),
			ours: f.name == m.row.Ours, ceiling: f.name == ceiling.name}
		if kind.unit != "" {
			b.value += " " + kind.unit
		}
		if b.ours {
			b.label = "usftp"
		}
		if b.ceiling {
			b.label += " (ceiling)"
		}
		if scp >= 0 && f.name != all[scp].name {
			if times, ok := kind.advantage(f, all[scp]); ok {
				b.value = fmt.Sprintf("%.*f x scp, %s", decimals(times), times, b.value)
			}
		}
		longest = max(longest, b.length)
		bars = append(bars, b)
	}
	for i := range bars {
		bars[i].length /= longest
	}
	return bars
}

func decimals(value float64) int {
	switch {
	case value >= 10:
		return 0
	case value >= 2:
		return 1
	}
	return 2
}

// drawBars draws groups of horizontal bars, each group with its own scale.
func drawBars(groups []barGroup) string {
	height := headHeight
	for _, group := range groups {
		height += groupHeight + len(group.bars)*barStep
	}
	var text strings.Builder
	fmt.Fprintf(&text, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" fill="%s">`+"\n",
		chartWidth, height, chartWidth, height, textColour)
	fmt.Fprintf(&text, `<text x="0" y="20" font-size="16" font-weight="bold">%s</text>`+"\n",
		"usftp beside other tools: higher is better")
	fmt.Fprintf(&text, `<text x="0" y="40">%s</text>`+"\n",
		"Ceiling: the same bytes through OpenSSH or TCP, without a file transfer.")
	y := headHeight
	for _, group := range groups {
		y += groupHeight
		fmt.Fprintf(&text, `<text x="0" y="%d" font-weight="bold">%s</text>`+"\n", y-10,
			escape(group.title))
		for _, b := range group.bars {
			width := max(1, b.length*(chartWidth-labelWidth-valueWidth))
			paint := fmt.Sprintf(`fill="%s"`, peerColour)
			switch {
			case b.ours:
				paint = fmt.Sprintf(`fill="%s"`, oursColour)
			case b.ceiling:
				paint = fmt.Sprintf(`fill="none" stroke="%s" stroke-dasharray="4 3"`, peerColour)
			}
			fmt.Fprintf(&text, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8,
				y+barHeight-3, escape(b.label))
			fmt.Fprintf(&text, `<rect x="%d" y="%d" width="%.1f" height="%d" %s/>`,
				labelWidth, y, width, barHeight, paint)
			fmt.Fprintf(&text, `<text x="%.1f" y="%d">%s</text>`+"\n", labelWidth+width+6,
				y+barHeight-3, escape(b.value))
			y += barStep
		}
	}
	text.WriteString("</svg>\n")
	return text.String()
}

func escape(s string) string {
	var text strings.Builder
	xml.EscapeText(&text, []byte(s))
	return text.String()
}
