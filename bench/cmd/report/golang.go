package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/usftp/usftp/bench/result"
)

// allowance is how much longer than the needed round trips a delayed transfer may take.
const allowance = 1.15

func (r *report) family(name string) (goFamily, bool) {
	for _, f := range r.golang {
		if f.name == name {
			return f, true
		}
	}
	return goFamily{}, false
}

func (r *report) goMarkdown() string {
	var text strings.Builder
	if pipe, ok := r.family("Pipe"); ok {
		floor, _ := r.family("Floor")
		text.WriteString(pipeMarkdown(pipe, floor))
	}
	if delay, ok := r.family("Delay"); ok {
		text.WriteString(delayMarkdown(delay))
	}
	if f, ok := r.family("Copy"); ok {
		text.WriteString(copyMarkdown(f))
	}
	if grid, ok := r.family("Grid"); ok {
		text.WriteString(gridMarkdown(grid))
	}
	if grid, ok := r.family("GridDelay"); ok {
		text.WriteString(gridDelayMarkdown(grid))
	}
	if tasks, ok := r.family("Task"); ok {
		text.WriteString(taskMarkdown(tasks))
	}
	for _, sweep := range []struct{ name, where string }{{"SweepPipe", "pipes"},
		{"SweepSSH", "x/crypto/ssh"}} {
		if f, ok := r.family(sweep.name); ok {
			text.WriteString(sweepMarkdown(f, sweep.where))
		}
	}
	return text.String()
}

func median(b *result.GoBenchmark, unit string) float64 { return result.Median(b.Values[unit]) }

// find returns the benchmark whose keys hold all of those given, as key and value in turn.
func (f goFamily) find(keys ...string) *result.GoBenchmark {
	for _, b := range f.benchmarks {
		if matches(b, keys...) {
			return b
		}
	}
	return nil
}

func matches(b *result.GoBenchmark, keys ...string) bool {
	for i := 0; i < len(keys); i += 2 {
		if b.Keys[keys[i]] != keys[i+1] {
			return false
		}
	}
	return true
}

// values returns the values of a key, in the order of the benchmarks.
func (f goFamily) values(key string) []string {
	var all []string
	for _, b := range f.benchmarks {
		if value := b.Keys[key]; value != "" && !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return all
}

func head(title string, f goFamily) string {
	return fmt.Sprintf("\n## %s\n\n%s\n", title, origin(f.session, f.file))
}

func columns(names []string) string {
	return "| " + strings.Join(names, " | ") + " |\n|" + strings.Repeat("---|", len(names)) + "\n"
}

// pairRatio is the median of the ratios of two benchmarks round by round.
func pairRatio(one, other *result.GoBenchmark, unit string) float64 {
	var ratios []float64
	for i := range min(len(one.Values[unit]), len(other.Values[unit])) {
		ratios = append(ratios, one.Values[unit][i]/other.Values[unit][i])
	}
	return result.Median(ratios)
}

func bestFloor(f goFamily, op, pipe string) *result.GoBenchmark {
	var best *result.GoBenchmark
	for _, b := range f.benchmarks {
		if matches(b, "op", op, "pipe", pipe) &&
			(best == nil || median(b, "MB/s") > median(best, "MB/s")) {
			best = b
		}
	}
	return best
}

func pipeMarkdown(pipe, floor goFamily) string {
	var text strings.Builder
	text.WriteString(head("10 MiB over pipes to sftp-server, no SSH", pipe))
	text.WriteString("The floor is a bare loop that keeps requests in flight and drops the replies, at the " +
		"best settings\nthat were tried. The target is 0.9 of the floor and 1.5 of pkg/sftp's best, with " +
		"fewer than 200\nallocations and 256 KiB for each transfer.\n\n")
	text.WriteString(columns([]string{"", "pipe", "MB/s", "of the floor", "of pkg/sftp's best",
		"allocations", "KiB allocated"}))
	for _, op := range pipe.values("op") {
		for _, size := range pipe.values("pipe") {
			least := bestFloor(floor, op, size)
			if least != nil {
				fmt.Fprintf(&text, "| %s floor (%s, %s in flight) | %s | %.0f | | | | |\n", op,
					least.Keys["packet"],
					least.Keys["inflight"], size, median(least, "MB/s"))
			}
			best := pipe.find("op", op, "pipe", size, "library", "pkgsftp-best")
			for _, library := range pipe.values("library") {
				b := pipe.find("op", op, "pipe", size, "library", library)
				if b == nil {
					continue
				}
				ofFloor, ofBest := "", ""
				if least != nil {
					ofFloor = fmt.Sprintf("%.2f", pairRatio(b, least, "MB/s"))
				}
				if best != nil {
					ofBest = fmt.Sprintf("%.2f", pairRatio(b, best, "MB/s"))
				}
				fmt.Fprintf(&text, "| %s %s | %s | %.0f | %s | %s | %.0f | %.0f |\n", op, library,
					size, median(b, "MB/s"),
					ofFloor, ofBest, median(b, "allocs/op"), median(b, "B/op")/1024)
			}
		}
	}
	return text.String()
}

// neededTrips are the round trips that moving a file needs: open and reads; open, writes and close.
var neededTrips = map[string]int{"CopyDown": 2, "CopyUp": 3}

func delayMarkdown(f goFamily) string {
	var text strings.Builder
	text.WriteString(head("10 MiB with every write of the client delayed", f))
	fmt.Fprintf(&text, "*Needed* is the time of the round trips that no client can avoid (%d down, %d up) and the library's\nown time without a delay. ",
		neededTrips["CopyDown"], neededTrips["CopyUp"])
	fmt.Fprintf(&text, "The target is %.2f of it.\n\n", allowance)
	text.WriteString(columns([]string{"", "delay", "ms", "needed", "ratio"}))
	for _, op := range f.values("op") {
		for _, delay := range f.values("delay") {
			for _, library := range f.values("library") {
				b := f.find("op", op, "delay", delay, "library", library)
				undelayed := f.find("op", op, "delay", "0s", "library", library)
				length, err := time.ParseDuration(delay)
				if b == nil || undelayed == nil || err != nil || length == 0 {
					continue
				}
				needed := float64(neededTrips[op])*float64(length) + median(undelayed, "ns/op")
				fmt.Fprintf(&text, "| %s %s | %s | %.0f | %.0f | %.2f |\n", op, library, delay,
					median(b, "ns/op")/1e6, needed/1e6,
					median(b, "ns/op")/needed)
			}
		}
	}
	return text.String()
}

func gridMarkdown(f goFamily) string {
	var text strings.Builder
	text.WriteString(head("The grid: 10 MiB by each operation and size", f))
	text.WriteString("One operation is a whole file with its open and close. Each cell has MB/s, KiB " +
		"allocated and\nallocations.\n\n")
	libraries := f.values("library")
	text.WriteString(columns(append([]string{"operation", "size", "delay"}, libraries...)))
	for _, op := range f.values("op") {
		for _, delay := range f.values("delay") {
			for _, size := range f.values("size") {
				if f.find("op", op, "size", size, "delay", delay) == nil {
					continue
				}
				fmt.Fprintf(&text, "| %s | %s | %s |", op, size, delay)
				for _, library := range libraries {
					b := f.find("op", op, "size", size, "delay", delay, "library", library)
					if b == nil {
						text.WriteString(" |")
						continue
					}
					fmt.Fprintf(&text, " %.1f, %.0f, %.0f |", median(b, "MB/s"),
						median(b, "B/op")/1024, median(b, "allocs/op"))
				}
				text.WriteString("\n")
			}
		}
	}
	return text.String()
}

// sweepMarkdown shows the best settings of pkg/sftp.
func sweepMarkdown(f goFamily, where string) string {
	const shown = 5
	var text strings.Builder
	text.WriteString(head("pkg/sftp's best settings over "+where, f))
	text.WriteString(columns([]string{"", "packet", "requests in flight", "MB/s"}))
	for _, op := range f.values("op") {
		var all []*result.GoBenchmark
		for _, b := range f.benchmarks {
			if b.Keys["op"] == op {
				all = append(all, b)
			}
		}
		slices.SortFunc(all, func(a, b *result.GoBenchmark) int {
			return cmp.Compare(median(b,
				"MB/s"), median(a, "MB/s"))
		})
		for _, b := range all[:min(shown, len(all))] {
			fmt.Fprintf(&text, "| %s | %s | %s | %.0f |\n", op, orDefault(b.Keys["packet"]),
				orDefault(b.Keys["requests"]), median(b, "MB/s"))
		}
	}
	return text.String()
}

func orDefault(value string) string { return cmp.Or(value, "default") }
