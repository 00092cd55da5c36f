package report

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

var (
	aFlag       = regexp.MustCompile(`(^|[\s("'=;])--[a-z]`)
	anOption    = regexp.MustCompile(`\b(transfer|pool|dial|usftp|checksum|server)\.[A-Z]\w*`)
	wholeOption = regexp.MustCompile(anOption.String() + `(\.\w+)*`)

	// of other programs
	otherFlags = regexp.MustCompile(`^usftp serve --stdio$|puttygen --ppk-param|--argv0`)
)

// TestLibraryAdvisesOptions: no text of a library package names a flag, which its users do not
// have, and the command has words of its own for each option that a text names.
func TestLibraryAdvisesOptions(t *testing.T) {
	testenv.Program(t, "go")
	const module = "github.com/usftp/usftp"
	out, err := exec.Command("go", "list", "-deps", "-f",
		`{{if .Module}}{{if eq .Module.Path "`+module+`"}}{{$dir := .Dir}}`+
			`{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`,
		module, module+"/transfer", module+"/checksum", module+"/server/...",
		module+"/sftptest/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, name := range strings.Fields(string(out)) {
		for _, text := range literals(t, name) {
			if aFlag.MatchString(text) && !otherFlags.MatchString(text) {
				t.Errorf("%s names a flag: %q", name, text)
			}
			if anOption.MatchString(text) {
				said++
				if left := anOption.FindString(Advice.Replace(text)); left != "" {
					t.Errorf("%s: the command has no words for %s in %q", name, left, text)
				}
			}
		}
	}
	if said < 10 {
		t.Errorf("only %d texts name an option", said)
	}
}

// A file that is called like an option keeps its name in a message.
func TestAdviceLeavesNamesAlone(t *testing.T) {
	for i := 0; i < len(advice); i += 2 {
		for _, name := range append(wholeOption.FindAllString(advice[i], -1), "the same call", "scp -O") {
			for _, message := range []string{"cannot copy " + name + " to far:" + name + ": no space",
				name + ": " + name + " (" + name + "); see `" + name + "`"} {
				if got := Advice.Replace(message); got != message {
					t.Errorf("%q has become %q", message, got)
				}
			}
		}
	}
}

// literals returns the strings in a file of Go.
func literals(t *testing.T, name string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			text, err := strconv.Unquote(l.Value)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
		}
		return true
	})
	return texts
}
