package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exported returns the exported names of the package in a directory: X, and T.X for methods and
// fields.
func exported(t *testing.T, dir, prefix string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				name := decl.Name.Name
				if decl.Recv != nil {
					name = receiver(decl.Recv.List[0].Type) + "." + name
				}
				names[prefix+name] = true
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					addSpec(names, prefix, spec)
				}
			}
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func addSpec(names map[string]bool, prefix string, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			names[prefix+name.Name] = true
		}
	case *ast.TypeSpec:
		names[prefix+spec.Name.Name] = true
		if fields, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					names[prefix+spec.Name.Name+"."+name.Name] = true
				}
			}
		}
	}
}

// TestMigrationTable: docs/coming-from-pkg-sftp.md has a row for every name of pkg/sftp, and the
// names on this side exist.
func TestMigrationTable(t *testing.T) {
	page := readDoc(t, "docs/coming-from-pkg-sftp.md")
	theirs := strings.Fields(readDoc(t, "docs/testdata/pkg-sftp-symbols.txt"))
	if len(theirs) < 200 {
		t.Fatalf("the list of pkg/sftp's names has %d", len(theirs))
	}
	quoted := regexp.MustCompile("`([A-Za-z.]+[A-Za-z0-9_]*)`")
	left, right := make(map[string]bool), make(map[string]bool)
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[1], -1) {
			left[match[1]] = true
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[2], -1) {
			right[match[1]] = true
		}
		if strings.HasPrefix(strings.TrimSpace(cells[2]), "the same") &&
			!strings.Contains(cells[2], "capitals") {
			for _, match := range quoted.FindAllStringSubmatch(cells[1], -1) {
				right[match[1]] = true
			}
		}
	}
	known := make(map[string]bool)
	for _, name := range theirs {
		known[name] = true
		if !left[name] {
			t.Errorf("%s of pkg/sftp is not in the table", name)
		}
	}
	for name := range left {
		if !known[name] {
			t.Errorf("%s is in the table and not in pkg/sftp", name)
		}
	}
	ours := exported(t, ".", "")
	for name := range exported(t, "server", "server.") {
		ours[name] = true
	}
	for name := range right {
		if !ours[name] {
			t.Errorf("%s is said to be here, and is not", name)
		}
	}
}

// winscp returns what is in backquotes in the tables of docs/coming-from-winscp.md: of theirs the
// first word.
func winscp(t *testing.T) (theirs, ours map[string]bool) {
	quoted := regexp.MustCompile("`([^`]+)`")
	theirs, ours = make(map[string]bool), make(map[string]bool)
	for line := range strings.Lines(readDoc(t, "docs/coming-from-winscp.md")) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "/"), "|")
		if len(cells) != 4 {
			continue
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[1], -1) {
			name, _, _ := strings.Cut(match[1], " ")
			theirs[name] = true
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[2], -1) {
			ours[match[1]] = true
		}
	}
	return theirs, ours
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// TestWinSCPsCommands: docs/coming-from-winscp.md has a row for each command of WinSCP's scripts,
// and the verbs and flags on this side exist.
func TestWinSCPsCommands(t *testing.T) {
	theirs, ours := winscp(t)
	for _, name := range strings.Fields(readDoc(t, "docs/testdata/winscp-commands.txt")) {
		if !theirs[name] {
			t.Errorf("%s of WinSCP is not in the tables", name)
		}
	}
	long := regexp.MustCompile(`--[a-z-]+`)
	for text := range ours {
		page := "docs/usftp.1" // has what many verbs share, cp, and those without a page
		if words := strings.Fields(text); len(words) > 1 && words[0] == "usftp" {
			if !strings.Contains(readDoc(t, page), "usftp "+words[1]) {
				t.Errorf("%q: there is no such command", text)
			}
			if own := "docs/usftp-" + words[1] + ".1"; isFile(own) {
				page = own
			}
		}
		manual := strings.ReplaceAll(readDoc(t, page), `\-`, "-")
		for _, flag := range long.FindAllString(text, -1) {
			if !strings.Contains(manual, flag) {
				t.Errorf("%q has the flag %s, which is not in %s", text, flag, page)
			}
		}
	}
}
