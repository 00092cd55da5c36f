package measure

import (
	"fmt"
	"io"
	"os"
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
		hold(os.Args[2])
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

// holding is a command that takes memory and keeps it until its input ends.
func holding(t *testing.T, mebibytes int) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("'%s' %s %d", self, holdArgument, mebibytes)
}

func hold(mebibytes string) {
	n, err := strconv.Atoi(mebibytes)
	if err != nil {
		panic(err)
	}
	memory := make([]byte, n<<20)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(memory)
}

var runner = Runner{Sample: time.Millisecond, Timeout: time.Minute}

// TestPeakIsTheSumOfAllProcesses has one process, and then two at a time, hold memory.
func TestPeakIsTheSumOfAllProcesses(t *testing.T) {
	const mebibytes = 60
	one := run(t, runner, "sleep 0.5 | "+holding(t, mebibytes)).PeakKiB
	two := run(t, runner, "sleep 0.5 | "+holding(t, mebibytes)+" & sleep 0.5 | "+holding(t,
		mebibytes)+"; wait").PeakKiB
	if one < mebibytes<<10 || one > 3*mebibytes<<10 { // the race detector more than doubles it
		t.Errorf("one process of %d MiB: %d KiB", mebibytes, one)
	}
	if ratio := float64(two) / float64(one); ratio < 1.8 || ratio > 2.2 {
		t.Errorf("two processes take %d KiB, one %d KiB", two, one)
	}
}

// TestProcessorIsThatOfTheWholeTree counts a child, and one that was left behind.
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
