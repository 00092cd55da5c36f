package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/bench/measure"
	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/sshd"
	"github.com/usftp/usftp/bench/testenv"
)

// The rows start this program again, as a meter or to log in.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == measure.MeterArgument || os.Args[1] == "login") {
		if err := start(os.Args[1:]); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Each contestant of a row must reach its server, sshd or usftp serve, and do the whole job.
func TestRowRuns(t *testing.T) {
	usftp := filepath.Join(t.TempDir(), "usftp")
	if out, err := exec.Command("go", "build", "-C", "../../..", "-o", usftp,
		"./cmd/usftp").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, name := range []string{"both-get", "both-put", "login"} {
		t.Run(name, func(t *testing.T) {
			o := options{rows: name, runs: 1, usftp: usftp, dir: t.TempDir(), size: 100_000,
				timeout: time.Minute}
			s, err := choose(o)
			if err != nil {
				t.Fatal(err)
			}
			row, kept := s.commands[0], 0
			runs, err := runRow(t.Context(), o, row, func(result.Run) error { kept++; return nil })
			if errors.Is(err, sshd.ErrNoServer) {
				testenv.Unavailable(t, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(runs) != len(row.Contestants) || kept != len(runs) {
				t.Errorf("%d runs and %d kept of %d contestants", len(runs), kept,
					len(row.Contestants))
			}
			for _, run := range runs {
				if run.Failure != "" || !run.ServerWhole || run.Seconds == 0 {
					t.Errorf("run: %+v", run)
				}
				if name == "login" && run.RoundTrips == 0 {
					t.Errorf("%s took no round trips", run.Contestant)
				}
			}
		})
	}
}
