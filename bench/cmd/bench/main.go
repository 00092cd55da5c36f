// Bench runs the rows of package rows: commands that move files over SSH, side by side, and keeps
// the raw results.
//
//	bench -list
//	bench -rows 'get|put' -runs 5 -usftp ./usftp
//	bench gotest -bench 'Floor|Pipe'
//	bench serve -usftp ./usftp -runs 1
//	bench sessions -usftp ./usftp
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/usftp/usftp/bench/measure"
	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
	"github.com/usftp/usftp/bench/wan"
)

var errNoRow = errors.New("no row of that name; -list -rows '.*' shows all")

type options struct {
	rows    string
	list    bool
	runs    int
	usftp   string
	results string
	dir     string
	size    int64
	only    string
	timeout time.Duration
}

func main() {
	if err := start(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(arguments []string) error {
	if len(arguments) > 0 {
		switch arguments[0] {
		case measure.MeterArgument:
			return measure.MeterMain(arguments[1:])
		case "library":
			return libraryMain(arguments[1:])
		case "gotest":
			return goTestMain(arguments[1:])
		case "serve":
			return serveMain(arguments[1:])
		case "sessions":
			return sessionsMain(arguments[1:])
		}
	}
	o, err := parse("bench", "get|put", 5, arguments)
	if err != nil {
		return err
	}
	selected, err := choose(o)
	if err != nil {
		return err
	}
	if o.list {
		list(selected)
		return nil
	}
	for _, row := range selected {
		if row.Link != nil {
			// All rows then run inside, each on a network of its own.
			if err := wan.Enter(24 * time.Hour); err != nil {
				return err
			}
			break
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return runAll(ctx, o, selected)
}

// parse reads the flags that all commands over SSH have.
func parse(name, standard string, runs int, arguments []string) (o options, err error) {
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	flags.StringVar(&o.rows, "rows", standard,
		"regular expression that a row's whole name must match")
	flags.BoolVar(&o.list, "list", false, "list the rows and their commands, run nothing")
	flags.IntVar(&o.runs, "runs", runs, "rounds, in each of which every contestant runs once")
	flags.StringVar(&o.usftp, "usftp", "",
		"the usftp program; without it its contestants are left out")
	flags.StringVar(&o.results, "results", "",
		"directory that takes the raw results; without it they are only printed")
	flags.StringVar(&o.dir, "dir", "/dev/shm", "directory for the files, best on tmpfs")
	flags.Int64Var(&o.size, "size", 0,
		"bytes of each file instead of the row's own, for a quick look")
	flags.StringVar(&o.only, "only", "",
		"regular expression that a contestant's whole name must match")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "longest that one command may take")
	flags.Parse(arguments)
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.usftp == "" || o.list {
		return o, nil
	}
	if o.usftp, err = exec.LookPath(o.usftp); err != nil {
		return o, err
	}
	o.usftp, err = filepath.Abs(o.usftp)
	return o, err
}

// pattern is a regular expression for a whole name. Nothing stands for every name.
func pattern(text string) (*regexp.Regexp, error) {
	if text == "" {
		text = ".*"
	}
	return regexp.Compile("^(?:" + text + ")$")
}

func choose(o options) ([]rows.Row, error) {
	byRow, err := pattern(o.rows)
	if err != nil {
		return nil, err
	}
	byContestant, err := pattern(o.only)
	if err != nil {
		return nil, err
	}
	var selected []rows.Row
	for _, row := range rows.All() {
		if !byRow.MatchString(row.Name) {
			continue
		}
		row.Contestants = slices.DeleteFunc(row.Contestants,
			func(c rows.Contestant) bool { return !byContestant.MatchString(c.Name) })
		if o.size > 0 {
			row.Bytes = o.size
		}
		selected = append(selected, row)
	}
	if len(selected) == 0 {
		return nil, errNoRow
	}
	return selected, nil
}

func list(selected []rows.Row) {
	for _, row := range selected {
		fmt.Printf("%s: %s\n", row.Name, row.Title)
		for _, contestant := range row.Contestants {
			fmt.Printf("    %-16s %s\n", contestant.Name, contestant.Command)
		}
	}
}

// keeper opens the file of results, or nothing where none is wanted.
func keeper(o options) (keep func(result.Run) error, end func() error, err error) {
	if o.results == "" {
		return func(result.Run) error { return nil }, func() error { return nil }, nil
	}
	writer, name, err := result.Create(o.results, result.NewSession())
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintln(os.Stderr, "results go to", name)
	return writer.Add, writer.Close, nil
}

func runAll(ctx context.Context, o options, selected []rows.Row) (err error) {
	keep, end, err := keeper(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for _, row := range selected {
		fmt.Printf("\n%s: %s\n", row.Name, row.Title)
		runs, err := runRow(ctx, o, row, keep)
		fmt.Print(table(row, runs))
		if err != nil {
			return fmt.Errorf("row %s: %w", row.Name, err)
		}
	}
	return nil
}

// table shows the medians of what has just been measured.
func table(row rows.Row, runs []result.Run) string {
	var text strings.Builder
	fmt.Fprintf(&text, "    %-16s %9s %9s %12s %12s %9s %6s\n", "", "MB/s", "s", "cpu-s/GiB",
		"server", "peak MiB", "trips")
	for _, contestant := range row.Contestants {
		var seconds, processor, server, peak, trips []float64
		var bytes int64
		failure := ""
		for _, run := range runs {
			if run.Contestant != contestant.Name {
				continue
			}
			if run.Failure != "" {
				failure = run.Failure
				continue
			}
			bytes = run.Bytes
			seconds = append(seconds, run.Seconds)
			processor = append(processor, run.User+run.System)
			server = append(server, run.Server)
			peak = append(peak, float64(run.PeakKiB)/1024)
			trips = append(trips, float64(run.RoundTrips))
		}
		if len(seconds) > 0 {
			gibibytes := float64(bytes) / (1 << 30)
			median := result.Median(seconds)
			fmt.Fprintf(&text, "    %-16s %9.0f %9.3f %12.2f %12.2f %9.1f %6.0f\n", contestant.Name,
				float64(bytes)/median/1e6, median, result.Median(processor)/gibibytes, result.Median(server)/gibibytes,
				result.Median(peak), result.Median(trips))
		}
		if failure != "" {
			fmt.Fprintf(&text, "    %-16s failed: %s\n", contestant.Name, failure)
		}
	}
	return text.String()
}
