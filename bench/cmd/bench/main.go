// Bench runs the rows of package rows: commands that move files over SSH, side by side, and keeps
// the raw results.
//
//	bench -list -rows '.*'
//	bench -rows 'get|put' -runs 5 -usftp ./usftp
//	bench -rows 'serve-.*-1|sessions-.*' -usftp ./usftp
//	bench -rows transport -usftp ./usftp
//	bench gotest -bench 'Floor|Pipe'
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
	usftpd  string
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
		case "mount":
			return mountMain(arguments[1:])
		case "gotest":
			return goTestMain(arguments[1:])
		case "login":
			return loginMain()
		case "objects":
			return minioMain(arguments[1:])
		}
	}
	o, err := parse(arguments)
	if err != nil {
		return err
	}
	selected, err := choose(o)
	if err != nil {
		return err
	}
	if o.list {
		selected.list()
		return nil
	}
	if slices.ContainsFunc(selected.commands, func(row rows.Row) bool { return row.Link != nil }) {
		// All rows then run inside, each on a network of its own.
		if err := wan.Enter(24 * time.Hour); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return runAll(ctx, o, selected)
}

func parse(arguments []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.StringVar(&o.rows, "rows", "get|put",
		"regular expression that a row's whole name must match, or "+transportSet)
	flags.BoolVar(&o.list, "list", false, "list the rows and their commands, run nothing")
	flags.IntVar(&o.runs, "runs", 5, "rounds, in each of which every contestant runs once")
	flags.StringVar(&o.usftp, "usftp", "",
		"the usftp program, with usftpd beside it; without it its contestants are left out")
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
	o.usftpd = filepath.Join(filepath.Dir(o.usftp), "usftpd")
	return o, err
}

// pattern returns the regular expression for a whole name. Empty text matches every name.
func pattern(text string) (*regexp.Regexp, error) {
	if text == "" {
		text = ".*"
	}
	return regexp.Compile("^(?:" + text + ")$")
}

// transportSet is the value of -rows for the rows of rows.Transport.
const transportSet = "transport"

// selection is the work of one session.
type selection struct {
	commands   []rows.Row
	servers    []rows.ServeRow
	sessions   []rows.SessionRow
	objects    []rows.ObjectRow
	contestant *regexp.Regexp
}

func choose(o options) (s selection, err error) {
	if o.rows == transportSet {
		o.rows = strings.Join(rows.Transport(), "|")
	}
	row, err := pattern(o.rows)
	if err != nil {
		return s, err
	}
	if s.contestant, err = pattern(o.only); err != nil {
		return s, err
	}
	s.commands = slices.DeleteFunc(rows.All(),
		func(r rows.Row) bool { return !row.MatchString(r.Name) })
	s.servers = slices.DeleteFunc(rows.Serve(),
		func(r rows.ServeRow) bool { return !row.MatchString(r.Name) })
	s.sessions = slices.DeleteFunc(rows.Sessions(),
		func(r rows.SessionRow) bool { return !row.MatchString(r.Name) })
	s.objects = slices.DeleteFunc(rows.Objects(),
		func(r rows.ObjectRow) bool { return !row.MatchString(r.Name) })
	if len(s.commands)+len(s.servers)+len(s.sessions)+len(s.objects) == 0 {
		return s, errNoRow
	}
	for i := range s.commands {
		r := &s.commands[i]
		r.Contestants = slices.DeleteFunc(r.Contestants,
			func(c rows.Contestant) bool { return !s.contestant.MatchString(c.Name) })
		setSize(&r.Bytes, o.size)
	}
	for i := range s.servers {
		r := &s.servers[i]
		r.Contestants = slices.DeleteFunc(r.Contestants,
			func(c rows.ServeContestant) bool { return !s.contestant.MatchString(c.Name()) })
		setSize(&r.Bytes, o.size)
	}
	for i := range s.sessions {
		setSize(&s.sessions[i].Bytes, o.size)
	}
	for i := range s.objects {
		r := &s.objects[i]
		r.Contestants = slices.DeleteFunc(r.Contestants,
			func(c rows.ObjectContestant) bool { return !s.contestant.MatchString(c.Name()) })
		setSize(&r.Bytes, o.size)
	}
	return s, nil
}

// setSize replaces the size of a row's files, where it has files and -size was given.
func setSize(bytes *int64, size int64) {
	if *bytes > 0 && size > 0 {
		*bytes = size
	}
}

func (s selection) list() {
	line := func(name, command string) { fmt.Printf("    %-20s %s\n", name, command) }
	for _, row := range s.commands {
		fmt.Printf("%s: %s\n", row.Name, row.Title)
		for _, c := range row.Contestants {
			line(c.Name, c.Command)
		}
	}
	for _, row := range s.servers {
		fmt.Println(row.Name)
		for _, c := range row.Contestants {
			line(c.Name(), c.Command)
		}
	}
	for _, row := range s.sessions {
		fmt.Printf("%s: %s\n", row.Name, row.Title)
	}
	for _, row := range s.objects {
		fmt.Printf("%s: %s\n", row.Name, row.Title)
		for _, c := range row.Contestants {
			line(c.Name(), c.Command)
		}
	}
}

// keeper opens the file of results if one is wanted.
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

func runAll(ctx context.Context, o options, selected selection) (err error) {
	keep, end, err := keeper(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for _, row := range selected.commands {
		fmt.Printf("\n%s: %s\n", row.Name, row.Title)
		runs, err := runRow(ctx, o, row, keep)
		var names []string
		for _, c := range row.Contestants {
			names = append(names, c.Name)
		}
		fmt.Print(table(names, runs))
		if err != nil {
			return fmt.Errorf("row %s: %w", row.Name, err)
		}
	}
	if err := runServe(ctx, o, selected.servers, keep); err != nil {
		return err
	}
	if err := runSessions(ctx, o, selected.sessions, selected.contestant, keep); err != nil {
		return err
	}
	return runObjects(ctx, o, selected.objects, keep)
}

// table shows the medians of the figures just measured.
func table(names []string, runs []result.Run) string {
	const width = 24
	var text strings.Builder
	fmt.Fprintf(&text, "    %-*s %9s %9s %12s %12s %9s %6s %10s\n", width, "", "MB/s", "s",
		"cpu-s/GiB",
		"server", "peak MiB", "trips", "busy core")
	for _, name := range names {
		var done []result.Run
		failure := ""
		for _, run := range runs {
			switch {
			case run.Contestant != name:
			case run.Failure != "":
				failure = run.Failure
			default:
				done = append(done, run)
			}
		}
		median := func(of func(result.Run) float64) float64 {
			var values []float64
			for _, run := range done {
				values = append(values, of(run))
			}
			return result.Median(values)
		}
		if len(done) > 0 {
			gibibytes := float64(done[0].Bytes) / (1 << 30)
			if gibibytes == 0 {
				gibibytes = 1 // no bytes are moved: these are the figures themselves
			}
			fmt.Fprintf(&text, "    %-*s %9.0f %9.3f %12.2f %12.2f %9.1f %6.0f %8.0f %%\n", width,
				name,
				median(func(r result.Run) float64 { return float64(r.Bytes) / r.Seconds / 1e6 }),
				median(func(r result.Run) float64 { return r.Seconds }),
				median(func(r result.Run) float64 { return r.User + r.System })/gibibytes,
				median(func(r result.Run) float64 { return r.Server })/gibibytes,
				median(func(r result.Run) float64 { return float64(r.PeakKiB) / 1024 }),
				median(func(r result.Run) float64 { return float64(r.RoundTrips) }),
				median(func(r result.Run) float64 { return 100 * r.Busiest / r.Seconds }))
		}
		if failure != "" {
			fmt.Fprintf(&text, "    %-*s failed: %s\n", width, name, failure)
		}
	}
	return text.String()
}
