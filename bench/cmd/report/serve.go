package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
)

// servedRow is a row of the servers with the runs of the newest session that has it.
type servedRow struct {
	row rows.ServeRow
	measuredRow
}

// The goals of the server: ahead of SFTPGo in time, at a part of its processor time, and no slower
// than OpenSSH.
const serveProcessorGoal = 0.7

// full is the part of its time from which on a core counts as full: the rest is the login, and what
// was missed between two looks.
const full = 0.9

const serveWords = `
## Servers

The same clients at OpenSSH's sshd with its sftp-server, at SFTPGo, at ` + "`usftp serve`" + `, and at HAProxy before two instances of that
(*balanced*), as many at a time as there are streams, each with a file of its own: of 1 GiB for one stream, of 256 MiB for more. Client and server share the
machine's cores. *s/GiB* are the server's processor seconds, HAProxy's among the balanced, and *client* those of the client at usftp.
*x* is how many times as fast usftp is; *of* what part of SFTPGo's processor seconds it takes. The goal is to be ahead of SFTPGo in time with at most 0.7 of its processor
seconds, and no slower than OpenSSH; what misses it is in bold. *Full* tells what had no more to give in the run at usftp: the client, one
process of which kept a core busy nine tenths of the time; or the machine, all of whose cores were.
`

// served is one line: a row's figures with one client.
type served struct {
	streams int
	client  string
	cores   int
	servers map[string]figures
}

func (r *report) serveMarkdown() string {
	if len(r.serve) == 0 {
		return ""
	}
	var text, tables strings.Builder
	var all []served
	for i := 0; i < len(r.serve); {
		end := i + 1
		for end < len(r.serve) && title(r.serve[end].row) == title(r.serve[i].row) {
			end++
		}
		group, lines := serveTable(r.serve[i:end])
		tables.WriteString(group)
		all = append(all, lines...)
		i = end
	}
	text.WriteString(serveWords)
	text.WriteString(serveSummary(all))
	text.WriteString(tables.String())
	return text.String()
}

func title(row rows.ServeRow) string {
	direction := "get"
	if row.Upload {
		direction = "put"
	}
	return fmt.Sprintf("%s %s, %s", row.Protocol, direction, row.Ciphers.Title)
}

// serveTable is the table of the rows that differ only in their streams.
func serveTable(group []servedRow) (string, []served) {
	var text strings.Builder
	fmt.Fprintf(&text, "\n### %s\n\n", title(group[0].row))
	var origins []string
	var lines []served
	for _, m := range group {
		if o := origin(m.session, m.file); !slices.Contains(origins, o) {
			origins = append(origins, o)
		}
		lines = append(lines, m.lines()...)
		if got, want := m.runs[0].Bytes, m.row.Bytes*int64(m.row.Streams); got != want {
			fmt.Fprintf(&text, "**With %d streams measured with %d bytes instead of %d.**\n\n",
				m.row.Streams, got, want)
		}
	}
	text.WriteString(strings.Join(origins, "\n"))
	text.WriteString("\n" + columns([]string{"streams", "client", "OpenSSH MB/s", "SFTPGo MB/s",
		"usftp MB/s", "balanced MB/s", "x SFTPGo",
		"x OpenSSH", "OpenSSH s/GiB", "SFTPGo s/GiB", "usftp s/GiB", "balanced s/GiB", "of SFTPGo", "client s/GiB", "full"}))
	for _, line := range lines {
		text.WriteString(line.markdown())
	}
	fmt.Fprintf(&text, "\n<details><summary>Commands</summary>\n\n```sh\n")
	for _, line := range lines {
		if line.streams == lines[0].streams {
			fmt.Fprintf(&text, "%s\n", line.command())
		}
	}
	text.WriteString("```\n\n</details>\n")
	return text.String(), lines
}

// lines are one for each client.
func (m servedRow) lines() []served {
	var lines []served
	for _, contestant := range m.row.Contestants {
		f := figuresOf(contestant.Name(), m.runs)
		if f.command == "" {
			continue
		}
		at := slices.IndexFunc(lines, func(s served) bool { return s.client == contestant.Client })
		if at < 0 {
			at = len(lines)
			lines = append(lines, served{m.row.Streams, contestant.Client, m.session.Machine.Cores,
				map[string]figures{}})
		}
		lines[at].servers[contestant.Server] = f
	}
	return lines
}

func (s served) command() string {
	for _, name := range rows.Servers() {
		if f, ok := s.servers[name]; ok {
			return f.command
		}
	}
	return ""
}

// cell shows a figure of one server.
func (s served) cell(name, format string, of func(result.Run) float64) string {
	f, ok := s.servers[name]
	switch {
	case !ok:
		return ""
	case len(f.rounds) == 0:
		return "failed: " + f.failure
	}
	return fmt.Sprintf(format, f.median(of))
}

func perGiB(of func(result.Run) float64) func(result.Run) float64 {
	return func(r result.Run) float64 { return of(r) * (1 << 30) / float64(r.Bytes) }
}

// goal is a ratio of ours to another's; it is not ok where one of them did not run.
func (s served) goal(other string, of func(result.Run) float64,
	met func(ratio float64) bool) (ratioOf float64, isMet, ok bool) {
	ratioOf, ok = ratio(s.servers[rows.Usftp], s.servers[other], of)
	return ratioOf, ok && met(ratioOf), ok
}

func ahead(ratio float64) bool     { return ratio > 1 }
func noSlower(ratio float64) bool  { return ratio >= 0.995 } // which is shown as 1.00
func fewEnough(ratio float64) bool { return ratio <= serveProcessorGoal }

func (s served) verdict(other string, of func(result.Run) float64, met func(float64) bool) string {
	value, isMet, ok := s.goal(other, of, met)
	switch {
	case !ok:
		return ""
	case isMet:
		return fmt.Sprintf("%.2f", value)
	}
	return fmt.Sprintf("**%.2f**", value)
}

// full tells what was.
func (s served) full() string {
	ours := s.servers[rows.Usftp]
	if len(ours.rounds) == 0 {
		return ""
	}
	var words []string
	if ours.median(func(r result.Run) float64 { return r.Busiest / r.Seconds }) >= full {
		words = append(words, "client")
	}
	if ours.median(func(r result.Run) float64 {
		return (processor(r) +
			server(r)) / r.Seconds
	}) >= full*float64(s.cores) {
		words = append(words, "machine")
	}
	return strings.Join(words, ", ")
}

func (s served) markdown() string {
	cells := []string{fmt.Sprint(s.streams), s.client}
	for _, name := range rows.Servers() {
		cells = append(cells, s.cell(name, "%.0f", rate))
	}
	cells = append(cells, s.verdict(rows.SFTPGo, rate, ahead),
		s.verdict(rows.OpenSSH, rate, noSlower))
	for _, name := range rows.Servers() {
		cells = append(cells, s.cell(name, "%.2f", perGiB(server)))
	}
	cells = append(cells, s.verdict(rows.SFTPGo, server, fewEnough),
		s.cell(rows.Usftp, "%.2f", perGiB(processor)), s.full())
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// serveSummary counts in how many lines each goal is met, and what was full where one of time is
// not.
func serveSummary(lines []served) string {
	var text strings.Builder
	text.WriteString("\n| goal | met | of | missed where client or machine is full |\n|---|---:|---:|---:|\n")
	for _, g := range []struct {
		words, other string
		of           func(result.Run) float64
		met          func(float64) bool
	}{
		{"ahead of SFTPGo in time", rows.SFTPGo, rate, ahead},
		{"at most 0.7 of SFTPGo's processor seconds", rows.SFTPGo, server, fewEnough},
		{"no slower than OpenSSH", rows.OpenSSH, rate, noSlower},
	} {
		met, of, excused := 0, 0, 0
		for _, line := range lines {
			_, isMet, ok := line.goal(g.other, g.of, g.met)
			if !ok {
				continue
			}
			of++
			if isMet {
				met++
			} else if line.full() != "" {
				excused++
			}
		}
		fmt.Fprintf(&text, "| %s | %d | %d | %d |\n", g.words, met, of, excused)
	}
	return text.String()
}
