package localfs

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTemporaryNames(t *testing.T) {
	long := strings.Repeat("x", 255)
	for _, base := range []string{"a", "file.tar.gz", long, long[:254] + "y",
		strings.Repeat("ä", 127), strings.Repeat("\x80", 255)} {
		first, second := TempName(base), TempName(base)
		if first == second {
			t.Errorf("two runs meet in %q", first)
		}
		prefix := TempPrefix(base)
		if !strings.HasPrefix(first, prefix) || !strings.HasPrefix(second, prefix) {
			t.Errorf("%q and %q cannot be found by %q", first, second, prefix)
		}
		if len(first) > longestName {
			t.Errorf("%q has %d bytes", first, len(first))
		}
		if utf8.ValidString(base) && !utf8.ValidString(first) {
			t.Errorf("%q is cut within a character", first)
		}
	}
	if TempPrefix(long) == TempPrefix(long[:254]+"y") {
		t.Error("two long names share their temporary names")
	}
}
