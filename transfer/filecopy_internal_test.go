package transfer

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/plan"
)

// What this package and filecopy both number has the same numbers in both, and all of it has.
func TestSameNumbersInFilecopy(t *testing.T) {
	placements := map[Placement]filecopy.Placement{PlaceAuto: filecopy.PlaceAuto,
		PlaceDirect: filecopy.PlaceDirect, PlaceAtomic: filecopy.PlaceAtomic}
	for ours, theirs := range placements {
		if filecopy.Placement(ours) != theirs {
			t.Errorf("placement %d is %d in filecopy", ours, theirs)
		}
	}
	deltas := map[Delta]filecopy.Delta{DeltaNever: filecopy.DeltaNever,
		DeltaAuto: filecopy.DeltaAuto, DeltaAlways: filecopy.DeltaAlways}
	for ours, theirs := range deltas {
		if filecopy.Delta(ours) != theirs {
			t.Errorf("delta %d is %d in filecopy", ours, theirs)
		}
	}
	for name, n := range map[string]int{"Placement": len(placements), "Delta": len(deltas)} {
		for _, file := range []string{"transfer.go", "../internal/filecopy/request.go"} {
			if have := constants(t, file, name); have != n {
				t.Errorf("%s has %d constants of type %s, and not %d", file, have, name, n)
			}
		}
	}
}

// Every phase and verification of filecopy has a name here: telling of another would panic.
func TestNamesForFilecopy(t *testing.T) {
	for i, name := range phases {
		if name == "" {
			t.Errorf("phase %d has no name", i)
		}
	}
	if n := constants(t, "../internal/filecopy/event.go", "Phase"); n != len(phases) {
		t.Errorf("filecopy has %d phases, %d have names", n, len(phases))
	}
	for i, name := range verifications {
		if (name == "") != (i == 0) {
			t.Errorf("verification %d is called %q", i, name)
		}
	}
	n := constants(t, "../internal/filecopy/copy.go", "Verification")
	if n+1 != len(verifications) {
		t.Errorf("filecopy has %d verifications, %d have names", n, len(verifications)-1)
	}
}

// Every reason that plan has for a change has the same name here.
func TestNamesForPlan(t *testing.T) {
	for i, name := range reasons {
		if (name == "") != (i == 0) {
			t.Errorf("reason %d is called %q", i, name)
		}
	}
	n := constants(t, "sync.go", "Reason") - 1 // without ReasonExtra
	if n != int(plan.Touch) || n+1 != len(reasons) {
		t.Errorf("there are %d reasons, plan has %d, and %d have names", n, plan.Touch, len(reasons)-1)
	}
}

// A fileTask is its own copy's Reporter: a method that it lacked would be the embedded one, which
// compiles, and calls itself for ever.
func TestEveryReportIsHeard(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(map[string]bool)
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
			if p, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok && p.X.(*ast.Ident).Name == "fileTask" {
				heard[f.Name.Name] = true
			}
		}
	}
	for m := range reflect.TypeFor[filecopy.Reporter]().Methods() {
		if !heard[m.Name] {
			t.Errorf("fileTask has no %s of its own", m.Name)
		}
	}
}

// constants counts the constants of a type, which are declared together.
func constants(t *testing.T, file, typ string) (n int) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		if is, ok := d.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); ok && is.Name == typ {
			for _, s := range d.Specs {
				n += len(s.(*ast.ValueSpec).Names)
			}
		}
	}
	return n
}

// Every option that filecopy has is passed on.
func TestOptionsOfFiles(t *testing.T) {
	o := Options{Placement: PlaceAtomic, Destination: Destination{NoTargetDirectory: true},
		Attributes: Attributes{Preserve: true}, Contents: Contents{Sparse: true},
		Delta: DeltaAlways, Sync: true, Resume: true, Verify: true, Hash: checksum.SHA256,
		List: new(checksum.List), Journal: "journal", RateLimit: 1}
	got := reflect.ValueOf(o.ofFiles())
	for i := range got.NumField() {
		if got.Field(i).IsZero() {
			t.Errorf("%s is not passed on", got.Type().Field(i).Name)
		}
	}
}
