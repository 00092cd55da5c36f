package localfs

import (
	"syscall"
	"testing"
)

// TestNamesInUTF16: what counts as UTF-16 is what comes back from it.
func TestNamesInUTF16(t *testing.T) {
	for _, name := range []string{"a", "\u00fc", "\U0001f600", "\ufffd", "\xff", "\xc0\xae", "\xed\xa0",
		"\xed\xa0\xbd", "\xed\xb8\x80", "\xed\xa0\xbd\xed\xb8\x80", "\xed\xb8\x80\xed\xa0\xbd",
		"\xed\xa0\xbd\xed\xa0\xbd\xed\xb8\x80", "\xed\xa0\xbda\xed\xb8\x80", "\xf4\x90\x80\x80"} {
		coded, err := syscall.UTF16FromString(name)
		if err != nil {
			t.Fatal(err)
		}
		if back := syscall.UTF16ToString(coded); (back == name) != isWTF8(name) {
			t.Errorf("%q comes back as %q", name, back)
		}
	}
}
