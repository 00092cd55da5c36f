package main

import (
	"fmt"
	"strings"

	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
)

// figures are the medians of one contestant in one row.
type figures struct {
	name, command string
	bytes         int64
	rounds        map[int]result.Run // without those that do not count
	failure       string
}

func (m measuredRow) figures() []figures {
	var all []figures
	for _, contestant := range m.row.Contestants {
		if f := figuresOf(contestant.Name, m.runs); f.command != "" {
			all = append(all, f)
		}
	}
	return all
}

// figuresOf selects the runs of one contestant.
func figuresOf(name string, runs []result.Run) figures {
	f := figures{name: name, rounds: map[int]result.Run{}}
	for _, run := range runs {
		if run.Contestant != name {
			continue
		}
		f.command, f.bytes = run.Command, run.Bytes
		if run.Failure != "" {
			f.failure = run.Failure
			continue
		}
		f.rounds[run.Round] = run
	}
	return f
}

func (f figures) median(of func(result.Run) float64) float64 {
	var values []float64
	for _, run := range f.rounds {
		values = append(values, of(run))
	}
	return result.Median(values)
}

// serverCell shows sshd's processor time, except from runs that could miss the time of processes
// that outlived their session.
func (f figures) serverCell(factor float64) string {
	for _, run := range f.rounds {
		if !run.ServerWhole {
			return "not re-measured"
		}
	}
	return fmt.Sprintf("%.2f", f.median(server)*factor)
}

func seconds(r result.Run) float64    { return r.Seconds }
func processor(r result.Run) float64  { return r.User + r.System }
func server(r result.Run) float64     { return r.Server }
func peak(r result.Run) float64       { return float64(r.PeakKiB) }
func roundTrips(r result.Run) float64 { return float64(r.RoundTrips) }
func carried(r result.Run) float64    { return float64(r.Carried) }
func rate(r result.Run) float64       { return float64(r.Bytes) / r.Seconds / 1e6 }

// ratio is the median, over the rounds that both ran, of one's figure over the other's.
func ratio(one, other figures, of func(result.Run) float64) (float64, bool) {
	var values []float64
	for round, run := range one.rounds {
		if with, ok := other.rounds[round]; ok && of(with) > 0 {
			values = append(values, of(run)/of(with))
		}
	}
	return result.Median(values), len(values) > 0
}

// headings begin the titles of rows that are not about time.
var headings = map[rows.Kind]string{rows.Memory: "peak memory: ",
	rows.FirstByte: "round trips: ", rows.Login: "round trips: "}

func (m measuredRow) markdown() string {
	var text strings.Builder
	all := m.figures()
	fmt.Fprintf(&text, "\n## %s\n\n", capital(headings[m.row.Kind]+m.row.Title))
	rounds := 0
	for _, f := range all {
		rounds = max(rounds, len(f.rounds))
	}
	if len(all) > 0 && all[0].bytes != m.row.Total(all[0].name) {
		fmt.Fprintf(&text, "**Measured with %d bytes instead.** ", all[0].bytes)
	}
	plural := "s"
	if rounds == 1 {
		plural = ""
	}
	fmt.Fprintf(&text, "%d round%s. %s\n", rounds, plural, origin(m.session, m.file))
	text.WriteString(m.table(all))
	text.WriteString(m.targets(all))
	text.WriteString("\n<details><summary>Commands</summary>\n\n```sh\n")
	for _, f := range all {
		fmt.Fprintf(&text, "# %s\n%s\n", f.name, f.command)
	}
	text.WriteString("```\n\n</details>\n")
	return text.String()
}

// cell escapes text for the cell of a table, which a bar would end.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (m measuredRow) table(all []figures) string {
	var text strings.Builder
	if m.row.Files > 0 {
		return m.treeTable(all)
	}
	switch {
	case m.row.Kind == rows.FirstByte, m.row.Kind == rows.Login:
		text.WriteString("| | round trips |\n|---|---:|\n")
	case m.row.InSeconds:
		text.WriteString("| | seconds | cpu-s | server | peak MiB |\n|---|---:|---:|---:|---:|\n")
	case m.row.Kind == rows.Memory:
		text.WriteString("| | peak MiB | MB/s | cpu-s/GiB |\n|---|---:|---:|---:|\n")
	default:
		text.WriteString("| | MB/s | seconds | cpu-s/GiB | server | peak MiB |\n|---|---:|---:|---:|---:|---:|\n")
	}
	for _, f := range all {
		if len(f.rounds) == 0 {
			fmt.Fprintf(&text, "| %s | failed: %s |\n", cell(f.name), cell(f.failure))
			continue
		}
		perGiB := float64(1<<30) / float64(f.bytes)
		switch {
		case m.row.Kind == rows.FirstByte, m.row.Kind == rows.Login:
			fmt.Fprintf(&text, "| %s | %.0f |\n", cell(f.name), f.median(roundTrips))
		case m.row.InSeconds:
			fmt.Fprintf(&text, "| %s | %.3f | %.2f | %s | %.1f |\n", cell(f.name), f.median(seconds),
				f.median(processor), f.serverCell(1), f.median(peak)/1024)
		case m.row.Kind == rows.Memory:
			fmt.Fprintf(&text, "| %s | %.1f | %.0f | %.2f |\n", cell(f.name), f.median(peak)/1024,
				f.median(rate), f.median(processor)*perGiB)
		default:
			fmt.Fprintf(&text, "| %s | %.0f | %.3f | %.2f | %s | %.1f |\n", cell(f.name),
				f.median(rate), f.median(seconds),
				f.median(processor)*perGiB, f.serverCell(perGiB), f.median(peak)/1024)
		}
	}
	return text.String()
}

// treeTable returns the table of a row with many files. If a contestant copied only some of them,
// its rate is that of those.
func (m measuredRow) treeTable(all []figures) string {
	var text strings.Builder
	text.WriteString("| | files/s | files | seconds | cpu-s | server | peak MiB |\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, f := range all {
		if len(f.rounds) == 0 {
			fmt.Fprintf(&text, "| %s | failed: %s |\n", cell(f.name), cell(f.failure))
			continue
		}
		files := f.bytes / m.row.Bytes
		fmt.Fprintf(&text, "| %s | %.0f | %d | %.3f | %.2f | %s | %.1f |\n", cell(f.name),
			float64(files)/f.median(seconds), files,
			f.median(seconds), f.median(processor), f.serverCell(1), f.median(peak)/1024)
	}
	return text.String()
}

func byName(all []figures) map[string]figures {
	named := map[string]figures{}
	for _, f := range all {
		named[f.name] = f
	}
	return named
}

// targets says for each target whether it was met. It is empty if usftp did not run.
func (m measuredRow) targets(all []figures) string {
	named := byName(all)
	ours := named[m.row.Ours]
	if len(ours.rounds) == 0 || len(m.row.Targets) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("\n| target | reached | |\n|---|---:|---|\n")
	for _, target := range m.row.Targets {
		words, value, met := judge(target, ours, named)
		verdict := "met"
		if !met {
			verdict = "**missed**"
		}
		fmt.Fprintf(&text, "| %s | %s | %s |\n", cell(words), value, verdict)
	}
	return text.String()
}

var figureOf = map[rows.Figure]func(result.Run) float64{
	rows.Throughput: rate, rows.Processor: processor, rows.PeakMemory: peak,
	rows.RoundTrips: roundTrips,
	rows.Carried:    carried,
}

var figureWords = map[rows.Figure]string{
	rows.Throughput: "rate", rows.Processor: "processor seconds", rows.PeakMemory: "peak memory",
	rows.RoundTrips: "round trips",
	rows.Carried:    "bytes",
}

// absolute shows the bound of a target that is not a ratio.
func absolute(target rows.Target) string {
	if target.Figure == rows.PeakMemory {
		return fmt.Sprintf("%.0f MiB", target.Absolute/1024)
	}
	return fmt.Sprintf("%.0f", target.Absolute)
}

// judge compares our figure with a target.
func judge(target rows.Target, ours figures,
	others map[string]figures) (words, value string, met bool) {
	of := figureOf[target.Figure]
	name := figureWords[target.Figure]
	if target.Absolute > 0 {
		got := ours.median(of)
		value = fmt.Sprintf("%.0f", got)
		if target.Figure == rows.PeakMemory {
			value = fmt.Sprintf("%.1f MiB", got/1024)
		}
		return name + " at most " + absolute(target), value, got <= target.Absolute
	}
	got, ok := ratio(ours, others[target.Against], of)
	if !ok {
		return fmt.Sprintf("%s against %s", name, target.Against), "not measured", false
	}
	value = fmt.Sprintf("%.2f", got)
	if target.Figure != rows.Throughput {
		return fmt.Sprintf("%s at most %.2f x %s", name, target.Bound,
			target.Against), value, got <= target.Bound
	}
	words = fmt.Sprintf("%s at least %.2f x %s", name, target.Bound, target.Against)
	met = got >= target.Bound
	if target.OrAgainst != "" {
		words += fmt.Sprintf(", or %.2f x %s where that is less", target.OrBound, target.OrAgainst)
		other, ok := ratio(ours, others[target.OrAgainst], of)
		met = met || ok && other >= target.OrBound
	}
	return words, value, met
}
