package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// The chart's measures, in SVG's units.
const (
	chartWidth  = 720
	labelWidth  = 120
	valueWidth  = 90
	barHeight   = 18
	barStep     = 24
	groupHeight = 34
)

type bar struct {
	label string
	value float64
	ours  bool
}

type barGroup struct {
	title string
	bars  []bar
}

// rateChart draws the rates of the rows named get and put.
func (r *report) rateChart() string {
	var groups []barGroup
	for _, m := range r.rows {
		if m.row.Name != "get" && m.row.Name != "put" {
			continue
		}
		group := barGroup{title: capital(m.row.Title) + ", MB/s"}
		for _, f := range m.figures() {
			if len(f.rounds) > 0 {
				group.bars = append(group.bars, bar{f.name, f.median(rate), f.name == m.row.Ours})
			}
		}
		groups = append(groups, group)
	}
	return drawBars(groups)
}

// drawBars draws groups of horizontal bars on one scale, with colours that serve on light and dark
// ground.
func drawBars(groups []barGroup) string {
	largest, height := 1.0, 10
	for _, group := range groups {
		height += groupHeight + len(group.bars)*barStep
		for _, b := range group.bars {
			largest = max(largest, b.value)
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" fill="#777">`+"\n",
		chartWidth, height, chartWidth, height)
	y := 0
	for _, group := range groups {
		y += groupHeight
		fmt.Fprintf(&text, `<text x="0" y="%d" font-weight="bold">%s</text>`+"\n", y-10,
			escape(group.title))
		for _, b := range group.bars {
			colour := "#9aa7b4"
			if b.ours {
				colour = "#1f7a4d"
			}
			width := b.value / largest * (chartWidth - labelWidth - valueWidth)
			fmt.Fprintf(&text, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8,
				y+barHeight-5, escape(b.label))
			fmt.Fprintf(&text, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`,
				labelWidth, y, width, barHeight, colour)
			fmt.Fprintf(&text, `<text x="%.1f" y="%d">%.0f</text>`+"\n", labelWidth+width+6,
				y+barHeight-5, b.value)
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
