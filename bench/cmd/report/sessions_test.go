package main

import (
	"testing"

	"github.com/usftp/usftp/bench/result"
)

func TestSessions(t *testing.T) {
	dir := t.TempDir()
	run := func(row, server string, peak, end int64) result.Run {
		return result.Run{Row: row, Contestant: server, Round: 1, Bytes: 64 << 20, Sessions: 100,
			Seconds: 2, Server: 3, PeakKiB: peak, EndKiB: end}
	}
	idle := run("sessions-idle", "usftp", 40000, 20000)
	idle.Bytes = 0
	left := run("sessions-visits", "usftp", 1000, 1000)
	left.Bytes, left.Failure = 0, "3 goroutines are left"
	writeRuns(t, dir, session, run("sessions-get", "sftpgo", 300000, 50000),
		run("sessions-get", "usftp", 500000, 50000), idle, left)
	expect(t, render(t, dir),
		"| sftpgo | 2.00 | 3.00 | 3000 | 500 |  |  |",
		"| usftp | 2.00 | 3.00 | 5000 | 500 | 0 | 4096 KiB: **missed** |",
		"| usftp | 2.00 | 3.00 | 400 | 200 | 0 | 256 KiB: met |",
		"| usftp | failed: 3 goroutines are left |")
}
