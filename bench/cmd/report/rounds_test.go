package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSingleRoundsAreLeftOut: a row of one round is named instead of shown, and a quick look does
// not take the place of a measurement.
func TestSingleRoundsAreLeftOut(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "results")
	once := getRun("scp", 1, 50, 1)
	once.Row = "put"
	writeRuns(t, dir, session, getRun("usftp cp", 1, 100, 1), getRun("usftp cp", 2, 100, 1),
		getRun("usftp cp, file just written", 1, 50, 1),
		getRun("usftp cp, file just written", 2, 50, 1))
	later := session
	later.Date, later.Commit = "2026-01-02T03:05Z", "def"
	writeRuns(t, dir, later, getRun("usftp cp", 1, 1, 1), once)
	files, err := generate(dir, outputs{page: filepath.Join(root, "page.md"),
		details: filepath.Join(root, "details.md"), chart: filepath.Join(root, "chart.svg")})
	if err != nil {
		t.Fatal(err)
	}
	page, details := files[filepath.Join(root, "page.md")], files[filepath.Join(root, "details.md")]
	expect(t, page, "\nRows measured in one round are left out: 1; rows with fewer than 5 rounds: 1.\n",
		"| Get of 1 GiB, aes128-gcm@openssh.com | 52 MB/s | 105 MB/s | 0.50 |",
		"| 105 MB/s | not measured |")
	expect(t, details, "commit abc", "measured in one round: put.\n")
	if strings.Contains(details, "Put of 1 GiB") || strings.Contains(details, "commit def") {
		t.Errorf("the details have a row of one round:\n%s", details)
	}
}
