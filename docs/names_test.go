package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMain runs the tests in the repository's root: documents are there as well, and all of them
// name files as seen from there.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	m.Run()
}

var (
	docLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	docHeader = regexp.MustCompile(`(?m)^#+ (.*)$`)
	docFile   = regexp.MustCompile("`([\\w./-]+\\.(?:go|txtar|toml|cfg|json))`")
	docTest   = regexp.MustCompile("`((?:Test|Benchmark|Fuzz|Example)[A-Z]\\w*)`")
	goTest    = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)[A-Z]\w*)\(`)
	notAnchor = regexp.MustCompile(`[^\w -]`)
)

// TestDocsNameWhatExists: the links of all documents lead somewhere, and the files and tests that
// they name are there.
func TestDocsNameWhatExists(t *testing.T) {
	var docs, files []string
	tests := make(map[string]bool)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		name = filepath.ToSlash(name)
		files = append(files, "/"+name)
		switch {
		case strings.HasSuffix(name, "_test.go"):
			for _, m := range goTest.FindAllStringSubmatch(readDoc(t, name), -1) {
				tests[m[1]] = true
			}
		case path.Ext(name) == ".md":
			docs = append(docs, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) < 20 {
		t.Fatalf("only %d documents: %v", len(docs), docs)
	}
	for _, name := range docs {
		text := readDoc(t, name)
		for _, m := range docLink.FindAllStringSubmatch(text, -1) {
			checkDocLink(t, name, m[1])
		}
		for _, m := range docFile.FindAllStringSubmatch(text, -1) {
			if !hasFile(files, m[1]) {
				t.Errorf("%s names the file %s, which does not exist", name, m[1])
			}
		}
		for _, m := range docTest.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hasFile reports whether a file exists: documents leave out the directories that are clear from
// what they are about.
func hasFile(files []string, name string) bool {
	for _, file := range files {
		if strings.HasSuffix(file, "/"+name) {
			return true
		}
	}
	return false
}

func checkDocLink(t *testing.T, doc, link string) {
	t.Helper()
	if strings.Contains(link, "://") {
		return
	}
	target, anchor, _ := strings.Cut(link, "#")
	name := doc
	if target != "" {
		name = path.Join(path.Dir(doc), target)
	}
	if _, err := os.Stat(filepath.FromSlash(name)); err != nil {
		t.Errorf("%s links to %s, which does not exist", doc, link)
		return
	}
	if anchor == "" {
		return
	}
	for _, m := range docHeader.FindAllStringSubmatch(readDoc(t, name), -1) {
		header := notAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(header, " ", "-") == anchor {
			return
		}
	}
	t.Errorf("%s links to %s, and there is no such section", doc, link)
}

// TestInstallsAsWritten: `go install PACKAGE@VERSION` refuses a module that replaces or excludes
// others, and README.md names the Go version that go.mod asks for.
func TestInstallsAsWritten(t *testing.T) {
	for _, name := range []string{"go.mod", "service/go.mod"} {
		m := regexp.MustCompile(`(?m)^\s*(replace|exclude)\b.*`).FindString(readDoc(t, name))
		if m != "" {
			t.Errorf("%s has %q", name, m)
		}
	}
	mod := readDoc(t, "go.mod")
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(mod)[1]
	if !strings.Contains(readDoc(t, "README.md"), "Go "+version+" or newer") {
		t.Errorf("README.md does not name Go %s", version)
	}
}
