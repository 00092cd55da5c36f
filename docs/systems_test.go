package docs_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSystems: README.md's table says of no system more than CI does there, and windows.md names
// the packages that are tested under Wine. Both are made here, out of CI's own lists.
func TestSystems(t *testing.T) {
	list := func(name, pattern string) []string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(readDoc(t, name))
		if found == nil {
			t.Fatalf("%s has nothing that matches %s", name, pattern)
		}
		return strings.Fields(found[1])
	}
	called := map[string]string{"darwin": "macOS", "windows": "Windows", "freebsd": "FreeBSD"}
	var compiled []string
	for _, system := range list(".ci/run", `(?m)^\t*for os in (.*); do$`) {
		compiled = append(compiled, called[system])
	}
	processors := list(".ci/run", `(?m)^\t*for arch in (.*); do$`)
	if got := list(".ci/run", `(?m)^(\.ci/windows)$`); len(got) != 1 {
		t.Error(".ci/run does not run .ci/windows")
	}
	wine := list(".ci/windows", `(?s)\npackages=\((.*?)\)`)
	if !slices.Contains(list(".ci/package", `(?m)^for system in (.*); do$`), "linux") ||
		!slices.Contains(list(".ci/package", `(?m)^\tfor processor in (.*); do$`), "arm64") {
		t.Error(".ci/package does not build for Linux on arm64")
	}

	if got := list(".ci/run", `(?m)^\t(\.ci/arm64)$`); len(got) != 1 {
		t.Error(".ci/run does not run .ci/arm64")
	}
	emulated := list(".ci/arm64", `(?s)\npackages=\((.*?)\)`)

	table := fmt.Sprintf(`
| system | tests |
|---|---|
| Linux on amd64 | everything is tested, against OpenSSH and a dozen other servers and clients |
| Windows on amd64 | under Wine, the demo and [%d packages' tests](docs/windows.md#what-is-tested) |
| %s on %s | everything is compiled, and vetted for amd64 |
| Linux on arm64 | the programs are compiled; each night, %d packages are tested under qemu-user |
`, len(wine), enumerated(compiled), enumerated(processors), len(emulated))
	if !strings.Contains(readDoc(t, "README.md"), table) {
		t.Errorf("CI says that README.md's table is:\n%s", table)
	}
	slices.Sort(wine)
	packages := strings.ReplaceAll("`"+strings.Join(wine, "`, `")+"`", "./", "")
	if text := strings.Join(strings.Fields(readDoc(t, "docs/windows.md")), " "); !strings.Contains(
		text, "the tests of these packages: "+packages+".") {
		t.Errorf("CI says that docs/windows.md's list is %s", packages)
	}
}

// enumerated returns "a, b and c".
func enumerated(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
