package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/usftp/usftp/bench/result"
)

// goTestMain runs the Go benchmarks of this module. It runs the whole selection once in each round,
// because go test's own -count would run one benchmark several times in a row, and keeps the output
// in benchstat's format.
func goTestMain(arguments []string) (err error) {
	flags := flag.NewFlagSet("bench gotest", flag.ExitOnError)
	pattern := flags.String("bench", "Floor|Pipe|Delay", "benchmarks to run, as for go test")
	rounds := flags.Int("runs", 5, "rounds, in each of which every benchmark runs once")
	benchtime := flags.String("benchtime", "50x", "as for go test")
	tags := flags.String("tags", "", "as for go test")
	results := flags.String("results", "",
		"directory that takes the raw results; without it they are only printed")
	flags.Parse(arguments)

	dir, err := os.MkdirTemp("", "usftp-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bench.test")
	build := exec.Command("go", "test", "-c", "-tags", *tags, "-o", binary,
		"github.com/usftp/usftp/bench")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go test -c, which works in the module's own directory: %w", err)
	}
	output := io.Writer(os.Stdout)
	if *results != "" {
		session := result.NewSession()
		file, err := result.NewFile(*results, session, ".txt")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		fmt.Fprintln(os.Stderr, "results go to", file.Name())
		output = io.MultiWriter(os.Stdout, file)
		result.WriteConfig(output, session)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for range *rounds {
		run := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", *pattern,
			"-test.benchtime", *benchtime,
			"-test.timeout", "6h")
		run.Dir = dir
		run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
		run.Stdout, run.Stderr = output, os.Stderr
		if err := run.Run(); err != nil {
			return err
		}
	}
	return nil
}
