package checksum

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// A line that is accepted has a name that stays below the directory, and survives writing and
// reading again.
func FuzzListLine(f *testing.F) {
	sum := strings.Repeat("0a", hashSize)
	for _, line := range []string{sum + "  name", sum + " *name", `\` + sum + `  a\nb\\c\rd`,
		"SHA256 (a (b) = c) = " + sum, `\SHA256 (a\nb) = ` + sum,
		sum + "  ../x", sum + "  /x", sum + "  a/./b//c", sum + "  \x00", sum + "  -", "", "#"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return // a reader of lines gives none
		}
		for _, a := range []Algorithm{SHA256, BLAKE3} {
			got, name, err := parseLine(line, a)
			if err != nil {
				continue
			}
			if len(got) != hashSize || strings.HasPrefix(name, "/") ||
				strings.IndexByte(name, 0) >= 0 ||
				filepath.Separator == '/' && !filepath.IsLocal(name) {
				t.Fatalf("%q has the name %q and the hash %x", line, name, got)
			}
			if a == BLAKE3 && strings.HasSuffix(name, "\r") {
				continue // b3sum has no way to say so
			}
			again := appendLine(nil, Hash{a, got}, name)
			text, ended := bytes.CutSuffix(again, []byte("\n"))
			if !ended || bytes.IndexByte(text, '\n') >= 0 {
				t.Fatalf("%q is written as %q", name, again)
			}
			sum2, name2, err := parseLine(text, a)
			if err != nil || name2 != name || !bytes.Equal(sum2, got) {
				t.Fatalf("%q is written as %q and read as %q, %v", name, again, name2, err)
			}
		}
	})
}
