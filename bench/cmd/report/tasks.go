package main

import (
	"fmt"
	"strings"
	"time"
)

// gridDelayMarkdown shows times, and how many delays fit in them: the round trips that the task
// waited for.
func gridDelayMarkdown(f goFamily) string {
	var text strings.Builder
	text.WriteString(head("The grid with every write of the client delayed", f))
	text.WriteString("10 MiB in pieces of 4 MiB, with a file's open and close. Each cell has milliseconds, and " +
		"how many\ndelays that is.\n\n")
	libraries := f.values("library")
	text.WriteString(columns(append([]string{"operation", "delay"}, libraries...)))
	for _, op := range f.values("op") {
		for _, delay := range f.values("delay") {
			fmt.Fprintf(&text, "| %s | %s |", op, delay)
			length, err := time.ParseDuration(delay)
			for _, library := range libraries {
				b := f.find("op", op, "delay", delay, "library", library)
				if b == nil || err != nil {
					text.WriteString(" |")
					continue
				}
				ns := median(b, "ns/op")
				fmt.Fprintf(&text, " %.0f, %.1f |", ns/1e6, ns/float64(length))
			}
			text.WriteString("\n")
		}
	}
	return text.String()
}

// taskTargets are the bounds for usftp in the tasks of BenchmarkTask.
var taskTargets = []struct {
	task, what, figure string
	against            taskFigure // the figure is divided by this; without a task, by unit
	unit               float64
	most               float64
}{
	{"stat-10000", "10,000 stats over 50 ms, in round trips", "s/task", taskFigure{}, 0.05, 6},
	{"walk-20000", "WalkDir of 20,000 files in 2,000 directories over 50 ms, of pkg/sftp's Walk",
		"s/task", taskFigure{"walk-20000", "pkgsftp"}, 1, 0.01},
	{"readdir-100000", "ReadDir of 100,000 entries over 50 ms, in seconds", "s/task", taskFigure{},
		1, 3},
	{"readdir-100000", "allocations an entry, of pkg/sftp's", "allocs/item",
		taskFigure{"readdir-100000", "pkgsftp"}, 1, 0.5},
	{"Read-1KiB", "Read in pieces of 1 KiB, of the time in pieces of 1 MiB", "s/task",
		taskFigure{"Read-1024KiB", "usftp"}, 1, 1.5},
	{"Write-1KiB", "Write in pieces of 1 KiB with write-behind, of the time in pieces of 1 MiB",
		"s/task", taskFigure{"Write-1024KiB", "usftp"}, 1, 1.5},
	{"idle", "an idle client's heap, in KiB", "heap-B", taskFigure{}, 1024, 64},
	{"idle", "an idle client's goroutines", "goroutines", taskFigure{}, 1, 2},
}

type taskFigure struct{ task, library string }

func taskMarkdown(f goFamily) string {
	var text strings.Builder
	text.WriteString(head("Tasks", f))
	text.WriteString("Over pipes to sftp-server, with every write of the client delayed by 50 ms where a line " +
		"says so.\npkg/sftp's stats come from 64 goroutines; it walks a twentieth of the tree, and its " +
		"time is multiplied\nby 20.\n\n")
	text.WriteString(columns([]string{"task", "library", "seconds", "allocations an item",
		"heap, KiB", "goroutines"}))
	for _, b := range f.benchmarks {
		cell := func(unit, format string, divisor float64) string {
			if len(b.Values[unit]) == 0 {
				return ""
			}
			return fmt.Sprintf(format, median(b, unit)/divisor)
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", b.Keys["task"], b.Keys["library"],
			cell("s/task", "%.3f", 1),
			cell("allocs/item", "%.2f", 1), cell("heap-B", "%.0f", 1024), cell("goroutines", "%.0f",
				1))
	}
	return text.String() + "\n" + taskTargetTable(f)
}

// taskTargetTable says for each target of the tasks whether it was met.
func taskTargetTable(f goFamily) string {
	var text strings.Builder
	text.WriteString(columns([]string{"task", "at most", "reached", "target"}))
	for _, target := range taskTargets {
		ours := f.find("task", target.task, "library", "usftp")
		if ours == nil || len(ours.Values[target.figure]) == 0 {
			continue
		}
		reached := median(ours, target.figure) / target.unit
		if target.against.task != "" {
			other := f.find("task", target.against.task, "library", target.against.library)
			if other == nil {
				continue
			}
			reached = pairRatio(ours, other, target.figure)
		}
		verdict := "met"
		if reached > target.most {
			verdict = "**missed**"
		}
		fmt.Fprintf(&text, "| %s | %g | %.3g | %s |\n", target.what, target.most, reached, verdict)
	}
	return text.String()
}
