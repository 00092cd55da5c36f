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

// The goals of the server: faster than SFTPGo, with a part of its processor time, and no slower
// than OpenSSH.
var processorGoal = map[string]float64{"SFTP": 0.7, "SCP": 0.6}

// full is the share of its time from which a core counts as full. The rest is the login, and what
// sampling missed.
const full = 0.9

const serveWords = `
## Servers

The same clients at OpenSSH's sshd with its sftp-server, at SFTPGo, at ` + "`usftpd`" + `, and at
HAProxy before two instances of it (*balanced*). There are as many clients at a time as streams, each
with a file of its own: 1 GiB for one stream, 256 MiB for more. Client and server share the machine.
*s/GiB* is the server's processor time, with HAProxy's where it is balanced; *client s/GiB* is that of
the client at usftp. *x* is how many times as fast usftp is, and *of SFTPGo* its share of SFTPGo's
processor time. Bold misses the goal: faster than SFTPGo, with at most 0.7 of its processor time for
SFTP and 0.6 for SCP, and no slower than OpenSSH. *Full* says what was used up during the run at
usftp: the client, one process of which kept a core busy nine tenths of the time, or the machine, all
of whose cores were busy.
`

// served is one line: a row's figures with one client.
type served struct {
	streams  int
	client   string
	job      string // protocol and direction
	protocol string
	cores    int
	servers  map[string]figures
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

func job(row rows.ServeRow) string {
	if row.Upload {
		return row.Protocol + " put"
	}
	return row.Protocol + " get"
}

func title(row rows.ServeRow) string { return job(row) + ", " + row.Ciphers.Title }

// serveTable is the table of rows that differ only in the number of streams.
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
		"x OpenSSH", "OpenSSH s/GiB", "SFTPGo s/GiB", "usftp s/GiB", "balanced s/GiB", "of SFTPGo",
		"client s/GiB", "full"}))
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

// lines returns one line for each client.
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
			lines = append(lines, served{m.row.Streams, contestant.Client, job(m.row),
				m.row.Protocol,
				m.session.Machine.Cores, map[string]figures{}})
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

// serverCell shows the server's processor time for each GiB. Only sshd has children that an older
// run could miss; the other servers are single processes, or HAProxy and two of them.
func (s served) serverCell(name string) string {
	if f := s.servers[name]; name == rows.OpenSSH && len(f.rounds) > 0 {
		return f.serverCell(float64(1<<30) / float64(f.bytes))
	}
	return s.cell(name, "%.2f", perGiB(server))
}

func perGiB(of func(result.Run) float64) func(result.Run) float64 {
	return func(r result.Run) float64 { return of(r) * (1 << 30) / float64(r.Bytes) }
}

// goal returns the ratio of ours to another's figure, and whether it meets the goal. ok is false if
// one of them did not run.
func (s served) goal(other string, of func(result.Run) float64,
	met func(ratio float64) bool) (ratioOf float64, isMet, ok bool) {
	ratioOf, ok = ratio(s.servers[rows.Usftp], s.servers[other], of)
	return ratioOf, ok && met(ratioOf), ok
}

func isAhead(ratio float64) bool  { return ratio > 1 }
func noSlower(ratio float64) bool { return ratio >= 0.995 } // shown as 1.00

func (s served) cheapEnough(ratio float64) bool { return ratio <= processorGoal[s.protocol] }

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

// full says what was at its limit: the client, the machine, or neither.
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
	cells = append(cells, s.verdict(rows.SFTPGo, rate, isAhead),
		s.verdict(rows.OpenSSH, rate, noSlower))
	for _, name := range rows.Servers() {
		cells = append(cells, s.serverCell(name))
	}
	cells = append(cells, s.verdict(rows.SFTPGo, server, s.cheapEnough),
		s.cell(rows.Usftp, "%.2f", perGiB(processor)), s.full())
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// serveSummary counts the lines that meet each goal and, among the others, those in which the
// client or the machine was at its limit.
func serveSummary(lines []served) string {
	var text strings.Builder
	text.WriteString("\n| goal, over all ciphers and streams | met | of | missed, with client or machine at its limit |\n" +
		"|---|---:|---:|---:|\n")
	for _, g := range []struct {
		words, other string
		of           func(result.Run) float64
		met          func(served, float64) bool
	}{
		{"faster than SFTPGo", rows.SFTPGo, rate, func(_ served, r float64) bool {
			return isAhead(r)
		}},
		{"at most 0.7 (SFTP) or 0.6 (SCP) of SFTPGo's processor time", rows.SFTPGo, server,
			served.cheapEnough},
		{"no slower than OpenSSH", rows.OpenSSH, rate,
			func(_ served, r float64) bool { return noSlower(r) }},
	} {
		met, of, excused := 0, 0, 0
		for _, line := range lines {
			_, isMet, ok := line.goal(g.other, g.of,
				func(ratio float64) bool { return g.met(line, ratio) })
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
