package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
	"github.com/usftp/usftp/bench/servers"
)

// runSessions measures the memory of servers with many sessions: the rows of rows.Sessions.
func runSessions(ctx context.Context, o options, selected []rows.SessionRow,
	byServer *regexp.Regexp,
	keep func(result.Run) error) error {
	for _, row := range selected {
		fmt.Printf("\n%s: %s\n", row.Name, row.Title)
		fmt.Printf("    %-16s %9s %9s %15s %15s %11s\n", "", "s", "server, s", "KiB each, most",
			"in the end", "goroutines")
		for round := 1; round <= o.runs; round++ {
			for _, server := range rows.SessionServers() {
				if !byServer.MatchString(server) {
					continue
				}
				if err := sessionsRun(ctx, o, row, server, round, keep); err != nil {
					return fmt.Errorf("row %s: %s: %w", row.Name, server, err)
				}
			}
		}
	}
	return nil
}

// sessionsRun starts a server for one run, so that nothing is left of another, and prints what it
// took.
func sessionsRun(ctx context.Context, o options, row rows.SessionRow, name string, round int,
	keep func(result.Run) error) (err error) {
	dir, err := os.MkdirTemp(o.dir, "usftp-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := makeSource(filepath.Join(dir, "source"), row.Bytes, true); err != nil {
		return err
	}
	rig, err := servers.NewRig(servers.Config{Dir: dir, Usftpd: o.usftpd})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	server, err := rig.Start(name)
	if errors.Is(err, servers.ErrAbsent) {
		fmt.Fprintf(os.Stderr, "    without %s: %v\n", name, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	run, err := measureSessions(ctx, o.timeout, row, server)
	if err != nil {
		return err
	}
	run.Round = round
	each := func(kib int64) float64 { return float64(kib) / float64(row.Sessions) }
	fmt.Printf("    %-16s %9.2f %9.2f %15.0f %15.0f %11d %s\n", name, run.Seconds, run.Server,
		each(run.PeakKiB), each(run.EndKiB),
		run.Goroutines, run.Failure)
	return keep(run)
}

// idleTime is how long idle sessions are left alone before the server's memory is looked at: longer
// than it keeps buffers for.
const idleTime = 10 * time.Second

func measureSessions(ctx context.Context, timeout time.Duration, row rows.SessionRow,
	server *servers.Server) (result.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	run := result.Run{Row: row.Name, Contestant: server.Name, Bytes: row.Bytes,
		Sessions: row.Sessions}
	spent, err := server.Processor()
	if err != nil {
		return run, err
	}
	goroutines, err := server.Goroutines()
	if err != nil {
		return run, err
	}
	before, _ := server.Memory()
	watch := watchMemory(server)
	began := time.Now()
	load := newLoad(row, server)
	failure := load.run(ctx)
	run.Seconds = time.Since(began).Seconds()
	if row.Work == rows.Idles && failure == nil {
		select {
		case <-time.After(idleTime):
		case <-ctx.Done():
			failure = ctx.Err()
		}
	}
	peak := watch()
	after, _ := server.Memory()
	run.PeakKiB, run.EndKiB = peak-before, after-before
	failure = errors.Join(failure, load.leave())
	now, err := server.Processor()
	if err != nil {
		return run, err
	}
	run.Server, run.ServerWhole = (now - spent).Seconds(), true
	left, err := server.Goroutines()
	if err != nil {
		return run, err
	}
	if run.Goroutines = left - goroutines; run.Goroutines > 0 {
		failure = errors.Join(failure, fmt.Errorf("%d goroutines are left", run.Goroutines))
	}
	if failure != nil {
		run.Failure = failure.Error()
	}
	return run, ctx.Err()
}

// watchMemory looks at the server's memory until it is asked for the most it was.
func watchMemory(server *servers.Server) (most func() int64) {
	stop, found := make(chan struct{}), make(chan int64)
	go func() {
		ticker := time.NewTicker(sampleRate)
		defer ticker.Stop()
		var peak int64
		for {
			_, now := server.Memory()
			peak = max(peak, now)
			select {
			case <-ticker.C:
			case <-stop:
				found <- peak
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-found
	}
}
