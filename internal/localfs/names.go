package localfs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A temporary file lies beside its target and is called ".NAME.usftp-RANDOM". The dot hides it from
// people and from programs that collect what arrives in a directory, the name lets a later run find
// what an earlier one left, and the random part keeps two runs apart.
const (
	tempMark    = ".usftp-"
	randomBytes = 4
	longestName = 255 // that file systems and servers take, in bytes
)

// TempName returns a new temporary name for a target whose last element is base.
func TempName(base string) string {
	var random [randomBytes]byte
	rand.Read(random[:])
	return TempPrefix(base) + hex.EncodeToString(random[:])
}

// TempPrefix returns what every temporary name for a target begins with. A name that would become
// too long is cut between two characters and gets a hash of the whole name instead.
func TempPrefix(base string) string {
	const room = longestName - 1 - len(tempMark) - 2*randomBytes
	if len(base) > room {
		h := fnv.New64a()
		h.Write([]byte(base))
		sum := "~" + strconv.FormatUint(h.Sum64(), 36)
		cut := room - len(sum)
		for cut > 0 && !utf8.RuneStart(base[cut]) {
			cut--
		}
		if cut == 0 { // not text
			cut = room - len(sum)
		}
		base = base[:cut] + sum
	}
	return "." + base + tempMark
}

// IsTempName reports whether a name is one that TempName returns.
func IsTempName(name string) bool {
	_, random, found := strings.Cut(name, tempMark)
	return found && strings.HasPrefix(name, ".") && len(random) == 2*randomBytes &&
		strings.Trim(random, "0123456789abcdef") == ""
}

// ErrBadName reports a name from a server that cannot be a file's name.
var ErrBadName = errors.New("server sent an invalid file name")

var errReservedName = fmt.Errorf("%w: this system has another use for it", ErrBadName)

// CheckName reports whether a name from elsewhere can be a file's name on this machine, as a nil
// error.
func CheckName(name string) error {
	if !filepath.IsLocal(name) || name == "." || strings.ContainsAny(name, "/\x00") ||
		strings.ContainsRune(name, filepath.Separator) {
		if runtime.GOOS == "windows" && CheckForeignName(name) == nil {
			return errReservedName
		}
		return ErrBadName
	}
	if runtime.GOOS == "windows" && altersOnWindows(name) {
		return errReservedName
	}
	return nil
}

// CheckForeignName reports whether a name from one server can be a file's name on another.
// Backslashes separate names on servers that run Windows and are letters elsewhere.
func CheckForeignName(name string) error {
	if name == "" || name == "." || strings.ContainsAny(name, "/\x00") {
		return ErrBadName
	}
	for element := range strings.SplitSeq(name, `\`) {
		if element == ".." {
			return ErrBadName
		}
	}
	return nil
}

// altersOnWindows reports whether Windows would take a name for another one: it drops trailing dots
// and spaces, so "a." would overwrite "a", and it gives some characters a meaning. filepath.IsLocal
// knows the reserved names, such as CON.
func altersOnWindows(name string) bool {
	return strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") ||
		strings.ContainsFunc(name, func(c rune) bool {
			return c < 0x20 || strings.ContainsRune(`<>:"/\|?*`, c)
		})
}

// FoldsCase reports whether names that differ only in case are usually the same file here.
const FoldsCase = runtime.GOOS == "darwin" || runtime.GOOS == "windows"

// FoldName returns the same string for names that differ only in case.
func FoldName(name string) string {
	return strings.ToLower(strings.ToUpper(name)) // both: a long s is an s only in upper case
}
