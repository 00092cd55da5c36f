package hosts

import (
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/usftp/usftp/internal/ui"
)

// table returns the summary for people: one line per host, and one for all.
func (r *Run) table(results []Result, total totalLine) string {
	all := ui.Count(int64(total.Hosts), "host", "hosts")
	wide := max(len("host"), len(all))
	for _, h := range r.Hosts {
		wide = max(wide, runewidth.StringWidth(ui.Printable(h.Label)))
	}
	copied := total.Files > 0
	var b strings.Builder
	line := func(host, result, files, size, time, rate string) {
		text := runewidth.FillRight(host, wide) + "  " + fmt.Sprintf("%-13s", result)
		if copied {
			text += fmt.Sprintf(" %8s %9s %9s %11s", files, size, time, rate)
		} else {
			text += fmt.Sprintf(" %9s", time)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	line("host", "result", "files", "size", "time", "rate")
	for i, result := range results {
		if result.skipped {
			line(ui.Printable(r.Hosts[i].Label), "not started", "", "", "", "")
			continue
		}
		line(ui.Printable(r.Hosts[i].Label), resultText(result.code), fmt.Sprint(result.Files),
			ui.Amount(float64(result.Bytes)), fmt.Sprintf("%.1f s", result.elapsed.Seconds()),
			ui.Rate(result.Bytes, result.elapsed))
	}
	line(all, fmt.Sprintf("%d failed", total.Failed),
		fmt.Sprint(total.Files), ui.Amount(float64(total.Bytes)),
		fmt.Sprintf("%.1f s", total.Elapsed.Seconds()), ui.Rate(total.Bytes, total.Elapsed))
	return b.String()
}

// resultText describes an exit code in a word or two.
func resultText(code int) string {
	switch {
	case code == ui.ExitOK:
		return "ok"
	case code == ui.ExitNoHost:
		return "no connection"
	case code > 128:
		return "interrupted"
	}
	return "failed"
}
