package docs_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityNamesTests: the tests that SECURITY.md and .ci/defences name are there.
func TestSecurityNamesTests(t *testing.T) {
	var sources bytes.Buffer
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		sources.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, least := range map[string]int{"SECURITY.md": 30, ".ci/defences": 11} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(text), -1)
		if len(names) < least {
			t.Errorf("%s names %d tests", file, len(names))
		}
		for _, name := range names {
			if !bytes.Contains(sources.Bytes(), []byte("\nfunc "+name+"(t *testing.T)")) {
				t.Errorf("%s names %s, which is no test", file, name)
			}
		}
	}
}
