package main

import (
	"fmt"
	"strings"

	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
)

// sessionRow is a row of sessions with the runs of the newest session that has it.
type sessionRow struct {
	row rows.SessionRow
	measuredRow
}

const sessionWords = `
## Many sessions

What a server holds for sessions at a time, each a connection of its own, beyond what it has before they come: at most while they work, and in
the end, which for idle sessions is ten seconds after the last has come. The clients are one process with x/crypto/ssh, at the same machine; the cipher is AES-128-GCM.
OpenSSH's server is left out, since its memory is that of two processes for each session, which share most of it. Goroutines are those that are left when
all have gone, where the server tells.
`

func (r *report) sessionMarkdown() string {
	if len(r.sessions) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString(sessionWords)
	for _, m := range r.sessions {
		fmt.Fprintf(&text, "\n### %s\n\n%s\n", m.row.Title, origin(m.session, m.file))
		if got := m.runs[0].Bytes; got != m.row.Bytes {
			fmt.Fprintf(&text, "**Measured with files of %d bytes instead.**\n\n", got)
		}
		text.WriteString(columns([]string{"", "seconds", "server's cpu-s", "KiB each, at most",
			"KiB each, in the end", "goroutines left", "goal"}))
		for _, name := range rows.SessionServers() {
			if f := figuresOf(name, m.runs); f.bytes > 0 || len(f.rounds) > 0 || f.failure != "" {
				text.WriteString(m.line(f))
			}
		}
	}
	return text.String()
}

// each is what there is for one session.
func (m sessionRow) each(kib func(result.Run) int64) func(result.Run) float64 {
	return func(r result.Run) float64 { return float64(kib(r)) / float64(m.row.Sessions) }
}

func (m sessionRow) line(f figures) string {
	if len(f.rounds) == 0 {
		return fmt.Sprintf("| %s | failed: %s | | | | | |\n", cell(f.name), cell(f.failure))
	}
	peak := f.median(m.each(func(r result.Run) int64 { return r.PeakKiB }))
	end := f.median(m.each(func(r result.Run) int64 { return r.EndKiB }))
	left, goal := "", ""
	if f.name == rows.Usftp {
		left = fmt.Sprintf("%.0f", f.median(func(r result.Run) float64 { return float64(r.Goroutines) }))
		goal = m.goal(peak, end, f.failure)
	}
	return fmt.Sprintf("| %s | %.2f | %.2f | %.0f | %.0f | %s | %s |\n", cell(f.name), f.median(seconds),
		f.median(server), peak, end, left, goal)
}

// goal tells whether ours was reached.
func (m sessionRow) goal(peak, end float64, failure string) string {
	words, met := "no error, no goroutine left", failure == ""
	if m.row.MostKiB > 0 {
		got := peak
		if m.row.Work == rows.Idles {
			got = end
		}
		words, met = fmt.Sprintf("%d KiB", m.row.MostKiB), met && got <= float64(m.row.MostKiB)
	}
	if met {
		return words + ": met"
	}
	return words + ": **missed**"
}
