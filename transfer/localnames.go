package transfer

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// foldsCase tells whether names that differ in case only are usually one on this system.
const foldsCase = runtime.GOOS == "darwin" || runtime.GOOS == "windows"

var (
	errDoubleName   = errors.New("its name differs only in case from that of another entry, and this system takes them for one")
	errReservedName = fmt.Errorf("%w here: this system has another use for it", ErrBadName)
)

// localBase tells whether a name can be one on this system, whose separators may be more than "/".
func localBase(name string) error {
	if !filepath.IsLocal(name) || strings.ContainsRune(name, filepath.Separator) {
		if runtime.GOOS == "windows" && foreignName(name) == nil {
			return errReservedName
		}
		return ErrBadName
	}
	if runtime.GOOS == "windows" && altersOnWindows(name) {
		return errReservedName
	}
	return nil
}

// altersOnWindows tells whether Windows would take a name for another one: it leaves dots and
// spaces at the end out, so that "a." would be written over "a", and has characters of its own.
// Reserved names, CON and its like, filepath.IsLocal knows there.
func altersOnWindows(name string) bool {
	return strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") ||
		strings.ContainsFunc(name, func(c rune) bool {
			return c < 0x20 || strings.ContainsRune(`<>:"/\|?*`, c)
		})
}

// double tells whether an entry's name is one that was there already, but for its case.
func (d *directory) double(name string) bool {
	folded := strings.ToLower(strings.ToUpper(name)) // both: a long s is an s in upper case only
	if d.names[folded] {
		return true
	}
	if d.names == nil {
		d.names = make(map[string]bool)
	}
	d.names[folded] = true
	return false
}
