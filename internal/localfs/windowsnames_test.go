package localfs

import "testing"

// TestNamesThatWindowsAlters: none of them may be written under the name that Windows makes of it.
func TestNamesThatWindowsAlters(t *testing.T) {
	for want, names := range map[error][]string{
		errEnd: {"a.", "a ", "a. .", "..."},
		errCharacter: {"c:", "file:stream", "f::$DATA", `a\b`, `..\a`, "a?", "a*", "<a", "a>", "a|b",
			`"a"`, "a\nb", "\x01", "NUL:"},
		errDevice: {"CON", "nul", "Aux.txt", "prn.tar.gz", "com1", "COM1.txt", "LPT9", "com\u00b9",
			"conin$", "CONOUT$", "NUL .txt", "com0"},
		errShort: {"PROGRA~1", "longna~1.txt", "A~10", "AB12CD~4.H", "a~123456"},
		errNotUTF16: {"a\xff", "\xe4", "a\xc0\xae", "\xed\xa0\xbd\xed\xb8\x80", // a pair as two halves
			"\xed\xa0", "\xed\xa0\xbda\xff"},
		nil: {"a", ".a", " a", "a.b", "ü", "a\x7f", "a;b", "con2", "..a", "console", "com", "comx",
			"com10", "file~", "~1", "file~1~", "file.~1~", "a~b", "a~1.html", "long name~1",
			"verylong~1", "a~1.b.c", "\U0001f600", "\ufffd", "\xed\xa0\xbd", "\xed\xb8\x80\xed\xa0\xbd",
			"\xed\xb8\x80"},
	} {
		for _, name := range names {
			if got := CheckWindows(name); got != want {
				t.Errorf("%q: %v, want %v", name, got, want)
			}
		}
	}
}
