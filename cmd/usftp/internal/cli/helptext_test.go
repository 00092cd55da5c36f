package cli

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/cmd/usftp/internal/files"
	"github.com/usftp/usftp/internal/ui"
)

// Help fits on a terminal of 80 columns, both of the command line and of a session.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	texts := make(map[string]string)
	root := commandLine(ui.NewApp("usftp"))
	for _, cmd := range append(root.Commands(), root) {
		var b bytes.Buffer
		cmd.SetOut(&b)
		if err := cmd.Help(); err != nil {
			t.Error(err)
		}
		texts["usftp help "+cmd.Name()] = b.String()
	}
	for _, c := range files.SessionCommands() {
		texts["help "+c.Name] = c.Help()
	}
	for name, text := range texts {
		if strings.Count(text, "\n") < 3 {
			t.Errorf("%s prints only %q", name, text)
		}
		for line := range strings.Lines(text) {
			if len(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%s has a line of %d columns: %s", name, len(line)-1, line)
			}
		}
	}
}

// TestTextsAreASCII: nothing that the command says is outside of ASCII, which a terminal in the
// locale C or POSIX shows as rubbish.
func TestTextsAreASCII(t *testing.T) {
	t.Parallel()
	for _, tree := range []string{"..", "../../../../internal", "../../../../transfer",
		"../../../../dial", "../../../../pool"} {
		err := filepath.WalkDir(tree, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
				strings.Contains(name, "endpointtest") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				text, ok := n.(*ast.BasicLit)
				if ok && text.Kind == token.STRING && strings.ContainsFunc(text.Value, notASCII) &&
					text.Value != `" ← "` { // fsnotify's
					t.Errorf("%s: %s", name, text.Value)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func notASCII(r rune) bool { return r >= 0x80 }
