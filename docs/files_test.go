package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goFile = regexp.MustCompile("`([\\w*/]+\\.go)`")

// TestFilesOfTransfer: architecture.md lists every file of package transfer once, and no other.
func TestFilesOfTransfer(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## The files of transfer\n")
	table, _, _ = strings.Cut(table, "\n\nA copy ")
	listed := make(map[string]bool)
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 3 {
			continue
		}
		for _, found := range goFile.FindAllStringSubmatch(cells[1], -1) {
			names, _ := filepath.Glob("transfer/" + found[1])
			if len(names) == 0 {
				t.Errorf("docs/architecture.md lists %s, which does not exist", found[1])
			}
			if listed[found[1]] {
				t.Errorf("docs/architecture.md lists %s twice", found[1])
			}
			listed[found[1]] = true
		}
	}
	names, err := filepath.Glob("transfer/*.go")
	if err != nil || len(names) == 0 {
		t.Fatal("there are no files: ", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		has := false
		for pattern := range listed {
			match, _ := path.Match(pattern, path.Base(name))
			has = has || match
		}
		if !has {
			t.Errorf("docs/architecture.md does not list %s", name)
		}
	}
}

// TestFilesExist: the files that architecture.md names exist.
func TestFilesExist(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := make(map[string]bool)
	err = filepath.WalkDir(".", func(name string, is os.DirEntry, err error) error {
		if name == ".git" && is.IsDir() {
			return filepath.SkipDir
		}
		exists[path.Base(name)], exists[filepath.ToSlash(name)] = true, true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range goFile.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(found[1], "*") && !exists[found[1]] {
			t.Errorf("docs/architecture.md names %s, which does not exist", found[1])
		}
	}
}
