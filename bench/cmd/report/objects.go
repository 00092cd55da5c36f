package main

import (
	"fmt"
	"strings"

	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
)

// objectRow is a row of object storage with the runs of the newest session that has it.
type objectRow struct {
	row rows.ObjectRow
	measuredRow
}

const objectWords = `
## Object storage

Files in the same versitygw, through usftpd, through SFTPGo with its S3 backend, and by minio-go
itself, which usftpd speaks to the storage with; all sign contents. Processor time is that of the
client and, apart from it, of the server; that of the storage is in neither. The logins are of users
with keys, at nodes of usftpd that serve a directory; PostgreSQL's time is left out.
`

// objectFigures are the figures that bars are about.
var objectFigures = map[rows.ObjectFigure]func(result.Run) float64{
	rows.ObjectRate: rate, rows.ObjectSeconds: seconds, rows.ObjectProcessor: server,
	rows.ObjectMemory: func(r result.Run) float64 { return peak(r) / 1024 },
	rows.ObjectKept: func(r result.Run) float64 {
		return float64(r.EndKiB) * 1024 / (float64(r.Bytes) / 2)
	},
}

// objectLines is a table of all bars.
func (r *report) objectLines() string {
	var lines strings.Builder
	for _, m := range r.objects {
		for _, bar := range m.row.Bars {
			fmt.Fprintf(&lines, "| %s | %s | %s |\n", capital(m.row.Title), bar.Figure, m.judge(bar))
		}
	}
	if lines.Len() == 0 {
		return ""
	}
	return objectWords + "\n" + columns([]string{"", "figure", "usftpd"}) + lines.String()
}

// judge says whether a bar is reached.
func (m objectRow) judge(bar rows.ObjectBar) string {
	of := objectFigures[bar.Figure]
	ours := figuresOf(m.row.ObjectOurs(), m.runs)
	if len(ours.rounds) == 0 {
		return "failed: " + ours.failure
	}
	value, against := ours.median(of), ""
	if bar.Against != "" {
		var ok bool
		if value, ok = ratio(ours, figuresOf(bar.Against, m.runs), of); !ok {
			return "not measured beside " + bar.Against
		}
		against = " x " + bar.Against
	}
	bound, words, met := bar.AtMost, "at most", value <= bar.AtMost
	if bar.AtLeast > 0 {
		bound, words, met = bar.AtLeast, "at least", value >= bar.AtLeast
	}
	verdict := "met"
	if !met {
		verdict = "**missed**"
	}
	return fmt.Sprintf("%.2f%s; %s %.2f: %s", value, against, words, bound, verdict)
}

// objectMarkdown are the tables of all contestants.
func (r *report) objectMarkdown() string {
	if len(r.objects) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString(objectWords)
	for _, m := range r.objects {
		fmt.Fprintf(&text, "\n### %s\n\n%s\n", capital(m.row.Title), origin(m.session, m.file))
		if got := m.runs[0].Bytes; got != m.row.Bytes*int64(max(1, m.row.Sessions)) {
			fmt.Fprintf(&text, "**Measured with %d bytes instead.**\n\n", got)
		}
		text.WriteString(columns([]string{"", "MB/s", "seconds", "client's cpu-s", "server's cpu-s",
			"peak MiB", "kept of a half"}))
		for _, c := range m.row.Contestants {
			f := figuresOf(c.Name(), m.runs)
			switch {
			case len(f.rounds) > 0:
				fmt.Fprintf(&text, "| %s | %.0f | %.2f | %.2f | %.2f | %.0f | %.2f |\n", c.Name(),
					f.median(rate), f.median(seconds), f.median(processor), f.median(server),
					f.median(peak)/1024, kept(f))
			case f.failure != "":
				fmt.Fprintf(&text, "| %s | failed: %s | | | | | |\n", c.Name(), cell(f.failure))
			}
		}
		text.WriteString("\n")
		for _, bar := range m.row.Bars {
			fmt.Fprintf(&text, "- %s: %s\n", bar.Figure, m.judge(bar))
		}
	}
	return text.String()
}

func kept(f figures) float64 {
	if f.bytes == 0 {
		return 0
	}
	return f.median(objectFigures[rows.ObjectKept])
}
