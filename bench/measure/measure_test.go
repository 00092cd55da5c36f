package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const holdArgument = "hold"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == MeterArgument {
		if err := MeterMain(os.Args[2:]); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == holdArgument {
		hold(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	os.Exit(m.Run())
}

func run(t *testing.T, r Runner, command string) Figures {
	t.Helper()
	figures, err := r.Run(command)
	if err != nil {
		t.Fatal(err)
	}
	return figures
}

// compute keeps a processor busy for a while.
const compute = `awk 'BEGIN { for (i = 0; i < 5000000; i++) s += i; exit s == 0 }'`

// heldFor is how long the meter has to look, which on a busy machine it does not do all the time.
const heldFor = 3 * time.Second

// holding is a command of several processes that take memory, and keep it until all have it and for
// a while more, in which the meter looks often.
func holding(t *testing.T, mebibytes, processes int) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf("'%s' %s %d %d '%s' & ", self, holdArgument, mebibytes, processes,
		t.TempDir())
	return strings.Repeat(one, processes) + "wait"
}

// hold is one of those processes; in dir there is a file for each that has its memory.
func hold(mebibytes, processes, dir string) {
	size, err := strconv.Atoi(mebibytes)
	all, err2 := strconv.Atoi(processes)
	if err := errors.Join(err, err2); err != nil {
		panic(err)
	}
	memory := make([]byte, size<<20)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), nil, 0o600); err != nil {
		panic(err)
	}
	for there := 0; there < all; time.Sleep(time.Millisecond) {
		entries, _ := os.ReadDir(dir)
		there = len(entries)
	}
	time.Sleep(heldFor)
	runtime.KeepAlive(memory)
}

var runner = Runner{Sample: time.Millisecond, Timeout: time.Minute}

// TestPeakIsTheSumOfAllProcesses has one process, and then two at a time, hold memory.
func TestPeakIsTheSumOfAllProcesses(t *testing.T) {
	const mebibytes = 60
	one := run(t, runner, holding(t, mebibytes, 1)).PeakKiB
	two := run(t, runner, holding(t, mebibytes, 2)).PeakKiB
	if one < mebibytes<<10 || one > 3*mebibytes<<10 { // the race detector more than doubles it
		t.Errorf("one process of %d MiB: %d KiB", mebibytes, one)
	}
	if ratio := float64(two) / float64(one); ratio < 1.8 || ratio > 2.2 {
		t.Errorf("two processes take %d KiB, one %d KiB", two, one)
	}
}

// TestPeakIsWithoutTheShell measures one command with a shell that waits for it, and with one that
// it has replaced.
func TestPeakIsWithoutTheShell(t *testing.T) {
	sleep := fmt.Sprint("sleep ", heldFor.Seconds())
	waits := run(t, runner, sleep+"; true").PeakKiB
	replaced := run(t, runner, "exec "+sleep).PeakKiB
	if difference := waits - replaced; replaced == 0 || difference < -300 || difference > 300 {
		t.Errorf("%d KiB beside a shell, %d KiB instead of one", waits, replaced)
	}
}

// TestProcessorIsThatOfTheWholeTree counts a child, and a child that was left behind.
func TestProcessorIsThatOfTheWholeTree(t *testing.T) {
	idle := run(t, runner, "sleep 0.1")
	child := run(t, runner, compute+"; true")
	orphan := run(t, runner, "("+compute+" &)")
	if idle.Seconds < 0.1 {
		t.Errorf("sleep 0.1 took %.3f s", idle.Seconds)
	}
	for name, figures := range map[string]Figures{"child": child, "orphan": orphan} {
		if busy := figures.User + figures.System; busy < 0.05 || busy < 3*(idle.User+idle.System) {
			t.Errorf("%s: %.3f s of processor, idle %.3f", name, busy, idle.User+idle.System)
		}
		if busy := figures.User + figures.System; figures.Busiest < busy/2 ||
			figures.Busiest > busy {
			t.Errorf("%s: its busiest process took %.3f s of %.3f", name, figures.Busiest, busy)
		}
		if figures.Failure != "" {
			t.Errorf("%s: %s", name, figures.Failure)
		}
	}
}

func TestFailureIsTold(t *testing.T) {
	if got := run(t, runner, "exit 3").Failure; got != "exit status 3" {
		t.Errorf("exit 3: %q", got)
	}
	short := runner
	short.Timeout = 100 * time.Millisecond
	if got := run(t, short, "sleep 100 & sleep 100"); !strings.Contains(got.Failure,
		"stopped after") || got.Seconds > 30 {
		t.Errorf("a command without end: %+v", got)
	}
}

func TestEnvironmentArrives(t *testing.T) {
	with := runner
	with.Environment = []string{"SRC=a b"}
	if got := run(t, with, `test "$SRC" = "a b"`).Failure; got != "" {
		t.Error(got)
	}
}
