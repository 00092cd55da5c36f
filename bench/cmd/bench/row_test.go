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
	"github.com/usftp/usftp/bench/rows"
	"github.com/usftp/usftp/bench/sshd"
	"github.com/usftp/usftp/internal/testenv"
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
	for _, name := range []string{"both-get", "both-put", "login", "sync-unchanged"} {
		t.Run(name, func(t *testing.T) {
			o := options{rows: name, runs: 1, usftp: usftp, dir: t.TempDir(), size: 100_000,
				timeout: time.Minute}
			s, err := choose(o)
			if err != nil {
				t.Fatal(err)
			}
			row, kept := s.commands[0], 0
			row.Files = min(row.Files, 20)
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

// The older version of a file is as the row says, and the target has it again before each run.
func TestOldVersions(t *testing.T) {
	const size = 3 << 20
	for name, test := range map[string]struct {
		old     rows.Old
		size    int64
		changed bool
	}{"none": {rows.None, -1, false}, "equal": {rows.Equal, size, false},
		"places": {rows.Places, size, true}, "front": {rows.Front, size - oldFront, true}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := &job{row: rows.Row{Bytes: size, Old: test.old},
				source: filepath.Join(dir, "source"),
				old:    filepath.Join(dir, "old"), target: filepath.Join(dir, "target")}
			if err := errors.Join(j.makeSources(), j.makeOld(), j.resetTarget()); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(j.target)
			if test.size < 0 {
				if err == nil {
					t.Error("there is a target")
				}
				return
			}
			if err != nil || info.Size() != test.size ||
				(same(j.source, j.target) != nil) != test.changed {
				t.Errorf("the target is %+v, %v", info, err)
			}
			if test.changed {
				if err := errors.Join(os.WriteFile(j.target, nil, 0o600), j.resetTarget(),
					same(j.old, j.target)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
