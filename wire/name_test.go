package wire

import (
	"strconv"
	"strings"
	"testing"
)

func TestTypeNames(t *testing.T) {
	// In the order of draft-02, section 3.
	first := strings.Fields(`INIT VERSION OPEN CLOSE READ WRITE LSTAT FSTAT SETSTAT FSETSTAT OPENDIR READDIR REMOVE MKDIR RMDIR
		REALPATH STAT RENAME READLINK SYMLINK`)
	names := make(map[Type]string)
	for i, name := range first {
		names[Type(1+i)] = name
	}
	for i, name := range strings.Fields(`STATUS HANDLE DATA NAME ATTRS`) {
		names[Type(101+i)] = name
	}
	names[200], names[201] = "EXTENDED", "EXTENDED_REPLY"
	for i := range 256 {
		want, known := names[Type(i)]
		if !known {
			want = "packet type " + strconv.Itoa(i)
		}
		if got := Type(i).String(); got != want {
			t.Errorf("type %d is called %q, want %q", i, got, want)
		}
	}
}

func TestCodeNames(t *testing.T) {
	seen := make(map[string]Code)
	for c := OK; c <= NoMatchingRangeLock; c++ {
		name := c.String()
		if other, again := seen[name]; again || strings.HasPrefix(name, "status ") {
			t.Errorf("code %d is called %q, as is %d", c, name, other)
		}
		seen[name] = c
	}
	if got := Code(0xffffffff).String(); got != "status 4294967295" {
		t.Errorf("a code that nobody defined is called %q", got)
	}
	// Some that are easily taken for another (draft-02, section 7; draft-13, section 9.1).
	for c, want := range map[Code]string{0: "success", 1: "end of file", 2: "no such file",
		3: "permission denied", 4: "failure",
		8: "operation unsupported", 11: "file already exists", 14: "no space on filesystem",
		18: "directory not empty",
		23: "invalid parameter", 31: "no such byte range lock"} {
		if got := c.String(); got != want {
			t.Errorf("code %d is called %q, want %q", c, got, want)
		}
	}
}
