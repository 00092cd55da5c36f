package verb

import (
	"strings"
	"testing"
)

// TestQuotedIsTheirs compares quotes with those of stat -c %N.
func TestQuotedIsTheirs(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for _, name := range []string{"a", "it's", "it's 5%", `it's "q"`, "it's $x", "sp ace", "a\nb",
		"\x01", "\x01a", "a\x01", "a\x01\x02\tb",
		"'", "''", "ünï", "ü's", "\xff", "a\xff\n'b", "a\xc3", "q\"q", `back\slash`, "-dash", "!",
		"it's!", "[x]'", "{x}'", "a=b'", "\x7f", "\u0080x", "a\x01'"} {
		writeFile(t, dir+"/"+name, "")
		names = append(names, name)
	}
	want, _ := tool(t, dir, "stat", append([]string{"-c", "%N", "--"}, names...)...)
	lines := strings.Split(want, "\n")
	for i, name := range names {
		if got := quoted(name); got != lines[i] {
			t.Errorf("%q: %s, want %s", name, got, lines[i])
		}
	}
}
