// Report turns the raw results of the benchmarks into BENCHMARKS.md, its chart, and the details
// behind both. Run it in the module's directory.
//
//	go run ./cmd/report
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
)

func main() {
	results := flag.String("results", "results", "directory of the raw results")
	var names outputs
	flag.StringVar(&names.page, "out", "../BENCHMARKS.md", "file for the page")
	flag.StringVar(&names.details, "details", "details.md", "file for all tables and commands")
	flag.StringVar(&names.chart, "chart", "chart.svg", "file for the chart")
	flag.Parse()
	if err := run(*results, names); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// outputs are the names of the generated files.
type outputs struct{ page, details, chart string }

func run(results string, names outputs) error {
	files, err := generate(results, names)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the content of each generated file by its name.
func generate(results string, names outputs) (map[string]string, error) {
	report, err := load(results)
	if err != nil {
		return nil, err
	}
	report.leaveOut()
	if err := report.check(results); err != nil {
		return nil, err
	}
	chart, err := linkTo(names.chart, names.page)
	if err != nil {
		return nil, err
	}
	details, err := linkTo(names.details, names.page)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		names.page:    report.page(chart, details),
		names.details: report.details(),
		names.chart:   report.chart(),
	}, nil
}

// linkTo returns the path of target relative to the directory of from. Both become absolute first,
// because filepath.Rel cannot leave a path that begins with "..".
func linkTo(target, from string) (string, error) {
	target, err := filepath.Abs(target)
	if err != nil {
		return "", err
	}
	from, err = filepath.Abs(from)
	if err != nil {
		return "", err
	}
	relative, err := filepath.Rel(filepath.Dir(from), target)
	return filepath.ToSlash(relative), err
}

// report is everything that was measured, the newest of each kind.
type report struct {
	rows     []measuredRow
	serve    []servedRow
	sessions []sessionRow
	objects  []objectRow
	golang   []goFamily
	single   []string // rows left out
	few      int      // rows with fewer rounds than they are to have
}

// measuredRow is a row with the runs of the newest session that has it.
type measuredRow struct {
	row     rows.Row
	session result.Session
	file    string
	runs    []result.Run
}

// goFamily is a family of Go benchmarks from the newest file that has it.
type goFamily struct {
	name       string
	session    result.Session
	file       string
	benchmarks []*result.GoBenchmark
}

// load reads the results. The names of the files sort by time, so the last file that has a row is
// its newest.
func load(dir string) (*report, error) {
	r := &report{}
	if err := r.loadRows(dir); err != nil {
		return nil, err
	}
	if err := r.loadGo(dir); err != nil {
		return nil, err
	}
	return r, r.check(dir)
}

// check returns an error if there is nothing to report.
func (r *report) check(dir string) error {
	if len(r.rows)+len(r.serve)+len(r.sessions)+len(r.objects)+len(r.golang) == 0 {
		return fmt.Errorf("no results in %s, or of one round only", dir)
	}
	return nil
}

func (r *report) loadRows(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return err
	}
	newest := map[string]measuredRow{}
	for _, name := range names {
		file, err := result.Read(name)
		if err != nil {
			return err
		}
		byRow := map[string][]result.Run{}
		for _, run := range file.Runs {
			byRow[run.Row] = append(byRow[run.Row], run)
		}
		for row, runs := range byRow {
			if rounds(runs) == 1 && rounds(newest[row].runs) > 1 {
				continue // a quick look
			}
			newest[row] = measuredRow{session: file.Session, file: file.Name, runs: runs}
		}
	}
	for _, row := range rows.All() {
		if m, ok := newest[row.Name]; ok {
			m.row = row
			r.rows = append(r.rows, m)
			delete(newest, row.Name)
		}
	}
	for _, row := range rows.Serve() {
		if m, ok := newest[row.Name]; ok {
			r.serve = append(r.serve, servedRow{row, m})
			delete(newest, row.Name)
		}
	}
	for _, row := range rows.Sessions() {
		if m, ok := newest[row.Name]; ok {
			r.sessions = append(r.sessions, sessionRow{row, m})
			delete(newest, row.Name)
		}
	}
	for _, row := range rows.Objects() {
		if m, ok := newest[row.Name]; ok {
			r.objects = append(r.objects, objectRow{row, m})
			delete(newest, row.Name)
		}
	}
	// Results of a row that was renamed or removed must not vanish unnoticed.
	for name := range newest {
		return fmt.Errorf("results of row %q, which package rows does not have: remove them or correct the name", name)
	}
	return nil
}

func (r *report) loadGo(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return err
	}
	newest := map[string]goFamily{}
	for _, name := range names {
		file, err := result.ReadGoBenchmarks(name)
		if err != nil {
			return err
		}
		inFile := map[string]goFamily{}
		for _, b := range file.Benchmarks {
			f := inFile[b.Family]
			f.name, f.session, f.file = b.Family, file.Session, file.Name
			f.benchmarks = append(f.benchmarks, b)
			inFile[b.Family] = f
		}
		for family, f := range inFile {
			newest[family] = f
		}
	}
	for _, name := range slices.Sorted(maps.Keys(newest)) {
		r.golang = append(r.golang, newest[name])
	}
	return nil
}

const detailsIntro = `# Benchmarks: every table

<!-- Generated by bench/cmd/report from bench/results. Do not edit. -->

[BENCHMARKS.md](../BENCHMARKS.md) is the summary, [README.md](README.md) has the commands.

In each row the contestants take turns, in a different order each round. Every figure is the median
over the rounds; a ratio is the median of the ratios within each round. Time is that of the whole
command, login included. Processor seconds are those of the command and all its children. *Server*
is the processor time of sshd and its children; older runs could miss some of it and show *not
re-measured*. Peak memory is the largest sum over the processes alive at one moment. MB/s are
millions of bytes a second. After each run the copy was compared with its source. All files are on
tmpfs unless a table says otherwise. A commit with a + had uncommitted changes.

` + "`ssh cat`" + ` is the ceiling of the rows that have it: the same bytes through OpenSSH without a
file transfer. ` + "`iperf3`" + ` is that of a link.

In the commands, $SRC and $DST are the files, $CONFIG is an ssh_config that names the server "host",
and $ADDRESS, $PORT, $USER, $KEY and $KNOWN_HOSTS give the same to tools that want it in pieces.
`

// details are all tables with the commands behind them.
func (r *report) details() string {
	var text strings.Builder
	text.WriteString(detailsIntro)
	text.WriteString(r.singleNote())
	for _, m := range r.rows {
		text.WriteString(m.markdown())
	}
	text.WriteString(r.serveMarkdown())
	text.WriteString(r.sessionMarkdown())
	text.WriteString(r.objectMarkdown())
	text.WriteString(r.goMarkdown())
	return text.String()
}

func origin(s result.Session, file string) string {
	m := s.Machine
	line := fmt.Sprintf("%s, commit %s; %s, %d cores, %s, Go %s", s.Date, s.Commit, m.CPU, m.Cores,
		m.Kernel, m.Go)
	if m.OpenSSH != "" {
		line += ", " + m.OpenSSH
	}
	var tools []string
	for tool, version := range m.Tools {
		tools = append(tools, tool+" "+version)
	}
	slices.Sort(tools)
	for _, tool := range tools {
		line += ", " + tool
	}
	return fmt.Sprintf("*%s; bench/results/%s*\n", line, file)
}
