//go:build unix

package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
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

// TestPuTTYsOptions: docs/coming-from-winscp.md has all options of pscp and all commands of psftp.
func TestPuTTYsOptions(t *testing.T) {
	theirs, _ := winscp(t)
	help, _ := exec.Command(testenv.Program(t, "pscp"), "-h").CombinedOutput() // it exits with 1
	psftp := exec.Command(testenv.Program(t, "psftp"))
	psftp.Stdin = strings.NewReader("help\nquit\n")
	commands, err := psftp.Output()
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, find := range []struct {
		in string
		is *regexp.Regexp
	}{
		{string(help), regexp.MustCompile(`(?m)^  (-\S+)(?: (-\S+))?`)},
		{strings.ReplaceAll(string(commands), "psftp> ", ""),
			regexp.MustCompile(`(?m)^([a-z!]+) +\w`)},
	} {
		for _, match := range find.is.FindAllStringSubmatch(find.in, -1) {
			for _, name := range match[1:] {
				if named++; name != "" && !theirs[name] {
					t.Errorf("%s of PuTTY is not in the tables", name)
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("pscp and psftp name %d:\n%s%s", named, help, commands)
	}
}
