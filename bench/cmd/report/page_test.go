package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPage(t *testing.T) {
	dir := t.TempDir()
	failed := getRun("lftp", 1, 500, 1)
	failed.Failure = "exit status 1"
	writeRuns(t, dir, session, getRun("ssh cat", 1, 100, 0.5), getRun("scp", 1, 50, 2),
		getRun("scp -O", 1, 80, 2), getRun("usftp cp", 1, 96, 1), failed)
	r, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	page := r.page("c.svg", "d.md")
	expect(t, page, "](c.svg)", "](d.md)", "On 2026-01-02 (Some CPU, 2 cores",
		"## One large file", "| Get of 1 GiB, aes128-gcm@openssh.com | 101 MB/s | "+
			"scp -O, 84 MB/s | 1.20 | 0.96 | **missed**: 0.96 x ssh cat, not 1.05 |",
		"| 1.00 s | scp, 2.00 s | 2.00 | 0.50 | **missed**: "+
			"2.00 x ssh cat, not 0.71 |")
	if strings.Contains(page, "Long links") {
		t.Error("the page has a table without lines")
	}
}

func TestPageLinksItsFiles(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "bench")
	writeRuns(t, filepath.Join(dir, "results"), session, getRun("scp", 1, 100, 1),
		getRun("scp", 2, 100, 1))
	t.Chdir(dir)
	names := outputs{page: "../BENCHMARKS.md", details: "details.md", chart: "chart.svg"}
	if err := run("results", names); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "BENCHMARKS.md"))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, string(page), "(bench/chart.svg)", "(bench/details.md)")
	for _, name := range []string{names.details, names.chart} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

// The committed page, details and chart match the committed results.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	t.Chdir("../..") // the module's directory, in which report runs
	files, err := generate("results", outputs{page: "../BENCHMARKS.md", details: "details.md",
		chart: "chart.svg"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is out of date (%v): run go run ./cmd/report in bench", name, err)
		}
	}
}

// Only the latest run of each row is kept: a run that no page shows is in git's history.
func TestOnlyShownResultsAreKept(t *testing.T) {
	t.Chdir("../..")
	page, err := os.ReadFile("../BENCHMARKS.md")
	details, detailsErr := os.ReadFile("details.md")
	kept, keptErr := filepath.Glob("results/*")
	if err := errors.Join(err, detailsErr, keptErr); err != nil || len(kept) == 0 {
		t.Fatal(err, kept)
	}
	for _, name := range kept {
		name = filepath.ToSlash(name)
		if !strings.Contains(string(page)+string(details), name) {
			t.Errorf("no page shows %s: remove it", name)
		}
	}
}
