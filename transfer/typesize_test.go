package transfer_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sizeLimits are how large types and functions may become.
type sizeLimits struct{ methods, fields, params, lines int }

// TestTypeSizes makes sure that no type of the transfer engine grows into an object that knows
// everything. A type over the limit usually holds a second one, with fields and a name of its own.
func TestTypeSizes(t *testing.T) {
	most := sizeLimits{methods: 25, fields: 15, params: 6, lines: 80}
	for _, dir := range []string{".", "../internal/endpoint", "../pool", "../checksum"} {
		checkSizes(t, most, goFiles(t, dir))
	}
	for _, dir := range []string{"../internal/filecopy", "../internal/journal", "../internal/plan"} {
		checkSizes(t, sizeLimits{methods: 16, fields: 12, params: 6, lines: 80}, goFiles(t, dir))
	}
}

// goFiles returns the files of a package without its tests.
func goFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(name string) bool {
		return strings.HasSuffix(name, "_test.go")
	})
}

func checkSizes(t *testing.T, most sizeLimits, files []string) {
	t.Helper()
	methods, fields := make(map[string]int), make(map[string]int)
	for _, name := range files {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					methods[receiver(n.Recv.List[0].Type)]++
				}
				lines := set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
				if params := n.Type.Params.NumFields(); params > most.params || lines > most.lines {
					t.Errorf("%s: %s has %d parameters and %d lines, more than %d or %d", name,
						n.Name.Name, params, lines, most.params, most.lines)
				}
			case *ast.TypeSpec:
				switch typ := n.Type.(type) {
				case *ast.StructType:
					fields[n.Name.Name] = typ.Fields.NumFields()
				case *ast.InterfaceType:
					methods[n.Name.Name] = typ.Methods.NumFields()
				}
			}
			return true
		})
	}
	if len(methods) == 0 || len(fields) == 0 {
		t.Fatalf("%s: no types were found", files)
	}
	for name, n := range methods {
		if n > most.methods {
			t.Errorf("%s has %d methods, more than %d", name, n, most.methods)
		}
	}
	for name, n := range fields {
		if n > most.fields {
			t.Errorf("%s has %d fields, more than %d", name, n, most.fields)
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(typ ast.Expr) string {
	switch typ := typ.(type) {
	case *ast.StarExpr:
		return receiver(typ.X)
	case *ast.IndexExpr:
		return receiver(typ.X)
	case *ast.IndexListExpr:
		return receiver(typ.X)
	case *ast.Ident:
		return typ.Name
	}
	return ""
}
