package wire

import (
	"encoding/hex"
	"strings"
	"testing"
)

// unhex turns a packet written out by hand into bytes: pairs of hex digits, "text" in quotes for
// itself, and # for the rest of a line that is a comment.
func unhex(t testing.TB, written string) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(written) {
		line, _, _ = strings.Cut(line, "#")
		for i, part := range strings.Split(line, `"`) {
			if i%2 == 1 {
				b = append(b, part...)
				continue
			}
			digits, err := hex.DecodeString(strings.Join(strings.Fields(part), ""))
			if err != nil {
				t.Fatalf("in %q: %v", line, err)
			}
			b = append(b, digits...)
		}
	}
	return b
}
