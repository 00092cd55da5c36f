package transfer_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestTypeSizes makes sure that no type of the transfer engine grows into an object that knows
// everything. A type over the limit usually holds a second one, with fields and a name of its own.
func TestTypeSizes(t *testing.T) {
	const mostMethods, mostFields = 25, 15
	for _, dir := range []string{".", "../internal/endpoint", "../pool", "../checksum"} {
		methods, fields := make(map[string]int), make(map[string]int)
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil,
				parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
					methods[receiver(f.Recv.List[0].Type)]++
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					switch typ := spec.Type.(type) {
					case *ast.StructType:
						fields[spec.Name.Name] = typ.Fields.NumFields()
					case *ast.InterfaceType:
						methods[spec.Name.Name] = typ.Methods.NumFields()
					}
				}
				return true
			})
		}
		if len(methods) == 0 || len(fields) == 0 {
			t.Fatalf("%s: no types were found", dir)
		}
		for name, n := range methods {
			if n > mostMethods {
				t.Errorf("%s: %s has %d methods, more than %d", dir, name, n, mostMethods)
			}
		}
		for name, n := range fields {
			if n > mostFields {
				t.Errorf("%s: %s has %d fields, more than %d", dir, name, n, mostFields)
			}
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
