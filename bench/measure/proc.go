// Package measure runs a command and takes account of its whole process tree: time, processor time
// and peak memory.
package measure

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ, which is 100 wherever Go runs on
// Linux.
const clockTick = 10 * time.Millisecond

// children returns the direct children of every thread of a process.
func children(pid int) []int {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	var pids []int
	for _, thread := range threads {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		if err != nil {
			continue // it ended just now
		}
		for _, field := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// descendants returns every process below pid.
func descendants(pid int) []int {
	var all []int
	for _, child := range children(pid) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}

// processor returns the user and system time of a process, and of its children that have ended.
func processor(pid int) (own, children time.Duration, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The name in parentheses may hold anything, so the fields are counted from its end: utime is
	// the 14th of all.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	var times [4]time.Duration // utime, stime, cutime, cstime
	for i := range times {
		n, err := strconv.ParseInt(fields[11+i], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		times[i] = time.Duration(n) * clockTick
	}
	return times[0] + times[1], times[2] + times[3], nil
}

// SettledProcessor waits until a process has no children and returns its processor time and theirs.
// A server like sshd forks a child for every connection, so this is the account of the connections
// that have ended.
func SettledProcessor(pid int, patience time.Duration) (time.Duration, error) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); len(children(pid)) > 0; {
		if now := <-ticker.C; now.After(deadline) {
			return 0, fmt.Errorf("process %d still has children after %s", pid, patience)
		}
	}
	own, children, err := processor(pid)
	return own + children, err
}

// highWater returns the peak resident memory of one process in KiB. It only grows until the process
// runs another program, so reading it now and then misses nothing but the last moments.
func highWater(pid int) (kib int64) { return status(pid, "VmHWM:") }

// Memory returns what a process and all below it have resident now, and the sum of what each of
// them has had at most, in KiB.
func Memory(pid int) (resident, peak int64) {
	for _, pid := range append(descendants(pid), pid) {
		resident += status(pid, "VmRSS:")
		peak += highWater(pid)
	}
	return resident, peak
}

// status returns a number of /proc/PID/status; 0 for what it lacks: zombies and kernel threads have
// no memory.
func status(pid int, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte(name))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	number, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return number
}
