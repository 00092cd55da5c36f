package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/usftp/usftp/bench/measure"
	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
	"github.com/usftp/usftp/bench/servers"
)

// runServe compares servers: the rows of rows.Serve.
func runServe(ctx context.Context, o options, selected []rows.ServeRow,
	keep func(result.Run) error) (err error) {
	if len(selected) == 0 {
		return nil
	}
	b, err := newServeBench(o, selected)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, row := range selected {
		fmt.Printf("\n%s\n", row.Name)
		runs, err := b.row(ctx, row, keep)
		var names []string
		for _, c := range row.Contestants {
			names = append(names, c.Name())
		}
		fmt.Print(table(names, runs))
		if err != nil {
			return fmt.Errorf("row %s: %w", row.Name, err)
		}
	}
	return nil
}

// serveBench has the servers, which run from the first row to the last.
type serveBench struct {
	o       options
	dir     string
	size    int64 // of the source that is there
	rig     *servers.Rig
	servers map[string]*servers.Server
	meter   measure.Runner
}

func newServeBench(o options, selected []rows.ServeRow) (b *serveBench, err error) {
	b = &serveBench{o: o, servers: map[string]*servers.Server{},
		meter: measure.Runner{Sample: sampleRate, Timeout: o.timeout}}
	if b.dir, err = os.MkdirTemp(o.dir, "usftp-bench-"); err != nil {
		return nil, err
	}
	if b.rig, err = servers.NewRig(servers.Config{Dir: b.dir, Usftpd: o.usftpd}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.dir))
	}
	for _, name := range rows.Servers() {
		if !slices.ContainsFunc(selected, func(row rows.ServeRow) bool {
			return slices.ContainsFunc(row.Contestants,
				func(c rows.ServeContestant) bool { return c.Server == name })
		}) {
			continue
		}
		server, err := b.rig.Start(name)
		if errors.Is(err, servers.ErrAbsent) {
			fmt.Fprintf(os.Stderr, "    without the rows of %s: %v\n", name, err)
			continue
		}
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		b.servers[name] = server
	}
	return b, nil
}

func (b *serveBench) close() (err error) {
	for _, server := range b.servers {
		err = errors.Join(err, server.Close())
	}
	return errors.Join(err, b.rig.Close(), os.RemoveAll(b.dir))
}

// row runs every contestant of a row once in each round.
func (b *serveBench) row(ctx context.Context, row rows.ServeRow,
	keep func(result.Run) error) (runs []result.Run, err error) {
	if source := filepath.Join(b.dir, "source"); b.size != row.Bytes {
		if err := makeSource(source, row.Bytes, false); err != nil {
			return nil, err
		}
		b.size = row.Bytes
	}
	contestants := slices.DeleteFunc(slices.Clone(row.Contestants), b.absent)
	return takeTurns(ctx, b.o.runs, contestants,
		func(c rows.ServeContestant, round int) (result.Run, error) {
			return b.run(row, c, round)
		}, keep)
}

// absent reports whether the contestant's server or client is not here.
func (b *serveBench) absent(contestant rows.ServeContestant) bool {
	if b.servers[contestant.Server] == nil {
		return true
	}
	if contestant.Program == rows.UsftpProgram {
		return b.o.usftp == ""
	}
	_, err := exec.LookPath(contestant.Program)
	return err != nil
}

func (b *serveBench) run(row rows.ServeRow, contestant rows.ServeContestant,
	round int) (result.Run, error) {
	run := result.Run{Row: row.Name, Contestant: contestant.Name(), Command: contestant.Command,
		Round: round,
		Bytes: int64(row.Streams) * row.Bytes}
	server := b.servers[contestant.Server]
	access := server.Access
	b.meter.Environment = []string{"HERE=" + b.dir, "THERE=" + server.Root,
		"CONFIG=" + access.ClientConfig, "ADDRESS=" + access.Address,
		"PORT=" + access.Port, "USER=" + access.User, "KEY=" + access.Key, "KNOWN_HOSTS=" +
			access.KnownHosts, "USFTP=" + b.o.usftp}
	before, err := server.Processor()
	if err != nil {
		return run, err
	}
	figures, err := b.meter.Run(rows.Together(contestant.Command, row.Streams))
	if err != nil {
		return run, err
	}
	after, err := server.Processor()
	if err != nil {
		return run, err
	}
	record(&run, figures, after-before)
	return run, b.checkTargets(row.Streams, &run)
}

// checkTargets compares the targets with the source, and removes them.
func (b *serveBench) checkTargets(streams int, run *result.Run) error {
	for i := 1; i <= streams; i++ {
		target := filepath.Join(b.dir, fmt.Sprintf("target%d", i))
		if run.Failure == "" {
			if err := same(filepath.Join(b.dir, "source"), target); err != nil {
				run.Failure = err.Error()
			}
		}
		if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
