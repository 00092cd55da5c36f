//go:build unix

package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMigrationRecipe runs the grep of docs/coming-from-pkg-sftp.md on a program.
func TestMigrationRecipe(t *testing.T) {
	page, err := os.ReadFile("docs/coming-from-pkg-sftp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(page), "```sh\n")
	recipe, _, ok := strings.Cut(recipe, "```")
	if !ok {
		t.Fatal("there is no recipe")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"old/main.go": `package main
import "github.com/pkg/sftp"
func f(c *sftp.Client, err error) {
	if os.IsNotExist(err) || os.IsPermission(err) {} // finds
	if os.IsExist(err) {} // finds
	if s, ok := err.(*sftp.StatusError); ok {} // finds
	if err == sftp.ErrSSHFxFailure {} // finds
	fmt.Println(info.Name()) // finds
	names := c.Getwd()
	if errors.Is(err, fs.ErrNotExist) {}
}`,
		"new/main.go": `package main
import sftp "github.com/usftp/usftp"
func g(f *sftp.File) { println(f.Name()) } // finds
`,
		"other/main.go": `package other
func h(err error) bool { return os.IsNotExist(err) }
`,
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", recipe)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 6 || slices.ContainsFunc(lines, func(line string) bool {
		return !strings.Contains(line, "// finds")
	}) {
		t.Errorf("it finds:\n%s", out)
	}
}
