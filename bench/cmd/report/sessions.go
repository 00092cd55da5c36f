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

The memory that a server takes for many sessions, each a connection of its own, beyond what it had
before: at most while they work, and at the end, which for idle sessions is ten seconds after the last
has come. The clients are one process on the same machine, with x/crypto/ssh and AES-128-GCM. OpenSSH
is left out: its memory is that of two processes for each session, which share most of it. Both servers
are single processes, so their processor time is complete in old runs too. *Goroutines left* are those
that remain when all sessions have gone, where the server reports them.
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

// each divides a figure by the number of sessions.
func (m sessionRow) each(kib func(result.Run) int64) func(result.Run) float64 {
	return func(r result.Run) float64 { return float64(kib(r)) / float64(m.row.Sessions) }
}

func (m sessionRow) line(f figures) string {
	if len(f.rounds) == 0 {
		return fmt.Sprintf("| %s | failed: %s | | | | | |\n", cell(f.name), cell(f.failure))
	}
	peak, end := f.median(m.each(peakKiB)), f.median(m.each(endKiB))
	left, goal := "", ""
	if f.name == rows.Usftp {
		left = fmt.Sprintf("%.0f", f.median(func(r result.Run) float64 {
			return float64(r.Goroutines)
		}))
		goal = m.goal(f.median(m.figure()), f.failure)
	}
	return fmt.Sprintf("| %s | %.2f | %.2f | %.0f | %.0f | %s | %s |\n", cell(f.name),
		f.median(seconds),
		f.median(server), peak, end, left, goal)
}

func peakKiB(r result.Run) int64 { return r.PeakKiB }
func endKiB(r result.Run) int64  { return r.EndKiB }

// figure is the memory per session that the row is about: what remains for idle sessions, the peak
// for all others.
func (m sessionRow) figure() func(result.Run) float64 {
	if m.row.Work == rows.Idles {
		return m.each(endKiB)
	}
	return m.each(peakKiB)
}

// goal says whether ours meets the goal.
func (m sessionRow) goal(kib float64, failure string) string {
	words, met := "no error, no goroutine left", failure == ""
	if m.row.MostKiB > 0 {
		words, met = fmt.Sprintf("%d KiB", m.row.MostKiB), met && kib <= float64(m.row.MostKiB)
	}
	if met {
		return words + ": met"
	}
	return words + ": **missed**"
}
