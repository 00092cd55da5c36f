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
	token := NewTempToken()
	for name, want := range map[string]struct {
		token TempToken
		base  string // of an old file
		old   bool
	}{
		token.Name("file"):                    {token: token},
		token.Name(long):                      {token: token},
		token.Name(token.OldName("file")):     {token: token},
		token.OldName("file"):                 {token, "file", true},
		token.OldName(long):                   {token, "", true},
		token.OldName("a.usftp-0123abcd4567"): {token, "a.usftp-0123abcd4567", true},
		".file.usftp-0123abcd":                {},
		".file.usftp-0123abcd456x":            {},
		".file.usftp-0123abcd--ab":            {},
		"file.usftp-0123abcd4567":             {},
		".usftp-0123abcd4567":                 {},
	} {
		base, old := OldNameOf(name)
		if got := TempTokenOf(name); got != want.token || old != want.old || base != want.base ||
			IsTempName(name) != (got != "") {
			t.Errorf("%q has the token %q and is the old %q (%v), want %+v", name, got, base, old,
				want)
		}
	}
	if TempPrefix(long) == TempPrefix(long[:254]+"y") {
		t.Error("two long names share their temporary names")
	}
}
