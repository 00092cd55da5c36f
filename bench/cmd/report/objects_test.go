package main

import (
	"testing"

	"github.com/usftp/usftp/bench/result"
)

// TestObjects: usftpd reaches the rate that it is to, takes too much processor time, and has run
// without minio-go.
func TestObjects(t *testing.T) {
	dir := t.TempDir()
	run := func(row, contestant string, seconds, server float64) result.Run {
		return result.Run{Row: row, Contestant: contestant, Command: "run", Round: 1,
			Bytes: 1 << 30, Seconds: seconds, Server: server}
	}
	abandoned := run("objects-abandoned", "usftp", 1, 1)
	abandoned.Bytes, abandoned.EndKiB = 256<<20, 64<<10
	failed := run("objects-logins", "three nodes", 1, 1)
	failed.Failure = "user1: no"
	writeRuns(t, dir, session, run("objects-put", "usftp: sftp", 2, 5),
		run("objects-put", "sftpgo: sftp", 4, 10), abandoned, failed)
	r, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, r.page("c.svg", "d.md"), "| Put of 1 GiB | rate | not measured beside minio-go |",
		"| Put of 1 GiB | rate | 2.00 x sftpgo: sftp; at least 1.40: met |",
		"| processor time | 0.50 x sftpgo: sftp; at most 0.45: **missed** |",
		"| kept of a half, share | 0.50; at least 0.80: **missed** |",
		"| time | failed: user1: no |")
	expect(t, render(t, dir), "| sftpgo: sftp | 268 | 4.00 | 0.00 | 10.00 | 0 | 0.00 |",
		"| usftp | 268 | 1.00 | 0.00 | 1.00 | 0 | 0.50 |", "| three nodes | failed: user1: no |")
}
