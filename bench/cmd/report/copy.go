package main

import (
	"fmt"
	"strings"

	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/internal/localfs"
)

// copySizes are the sizes of the benchmark, by their names.
var copySizes = map[string]int64{"10KB": 10e3, "10MB": 10e6, "100MB": 100e6}

// copyWays names the ways to copy.
var copyWays = map[localfs.Plan]string{
	{Move: localfs.Kernel}:                       "kernel",
	{Move: localfs.Clone}:                        "clone",
	{Move: localfs.Read}:                         "read, write",
	{Move: localfs.Kernel, Hash: localfs.Reread}: "kernel, then reread",
	{Move: localfs.Clone, Hash: localfs.Reread}:  "clone, then reread",
	{Move: localfs.Read, Hash: localfs.Reread}:   "read, write, then reread",
	{Move: localfs.Read, Hash: localfs.Tee}:      "read, hash, write",
	{Move: localfs.Read, Hash: localfs.TeeAside}: "read, hash aside, write",
}

func copyMarkdown(f goFamily) string {
	var text strings.Builder
	text.WriteString(head("Copies on one machine", f))
	text.WriteString("A new file is created, filled from one whose pages are in memory, and closed, without " +
		"fsync. *Kernel*\nis copy_file_range, *clone* is FICLONE where the file system has it; reads and " +
		"writes are of 256 KiB.\n*Aside* is on another goroutine. Each cell has the time, and in " +
		"parentheses the processor time of all\ncores. **Bold** is the shortest time for a hash and " +
		"size, *italic* is what `usftp cp` and copy-data use.\n\n")
	sizes := f.values("size")
	text.WriteString(columns(append([]string{"on", "hash", "way"}, sizes...)))
	for _, on := range f.values("on") {
		for _, hash := range f.values("hash") {
			for _, b := range f.ways(on, hash) {
				fmt.Fprintf(&text, "| %s | %s | %s |", on, hash, copyWays[planOf(b)])
				for _, size := range sizes {
					text.WriteString(" " + f.copyCell(on, hash, size, planOf(b)) + " |")
				}
				text.WriteString("\n")
			}
		}
	}
	return text.String()
}

// ways returns a benchmark of each way in which a file system's files were copied, with a hash.
func (f goFamily) ways(on, hash string) (all []*result.GoBenchmark) {
	known := make(map[localfs.Plan]bool)
	for _, b := range f.benchmarks {
		if matches(b, "on", on, "hash", hash) && !known[planOf(b)] {
			known[planOf(b)] = true
			all = append(all, b)
		}
	}
	return all
}

func planOf(b *result.GoBenchmark) localfs.Plan {
	return localfs.Plan{Move: localfs.Move(b.Keys["move"]), Hash: localfs.Hashing(b.Keys["by"])}
}

// copyCell shows the times of one way.
func (f goFamily) copyCell(on, hash, size string, plan localfs.Plan) string {
	var found *result.GoBenchmark
	best, clones := 0.0, false
	for _, b := range f.benchmarks {
		if !matches(b, "on", on) {
			continue
		}
		clones = clones || planOf(b).Move == localfs.Clone
		if !matches(b, "hash", hash, "size", size) {
			continue
		}
		if took := median(b, "ns/op"); best == 0 || took < best {
			best = took
		}
		if planOf(b) == plan {
			found = b
		}
	}
	if found == nil {
		return ""
	}
	took := shortTime(median(found, "ns/op"))
	if median(found, "ns/op") == best {
		took = "**" + took + "**"
	}
	cell := fmt.Sprintf("%s (%s)", took, shortTime(median(found, "cpu-ns/op")))
	taken := localfs.Choose(localfs.Facts{Size: copySizes[size], Hash: hash != "none",
		Whole: true, NoClone: !clones, Processors: f.session.Machine.Cores})
	if hash == "none" {
		taken.Hash = ""
	}
	if taken == plan {
		cell = "*" + cell + "*"
	}
	return cell
}

// shortTime writes nanoseconds with at least three digits.
func shortTime(ns float64) string {
	unit, value := "µs", ns/1e3
	if value >= 1000 {
		unit, value = "ms", ns/1e6
	}
	if value >= 100 {
		return fmt.Sprintf("%.0f %s", value, unit)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
