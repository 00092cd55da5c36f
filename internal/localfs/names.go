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

// A temporary file lies beside its target and is called ".NAME.usftp-TOKENxxxx". The dot hides it
// from people and from programs that collect files arriving in a directory, the name lets a later
// run find an earlier one's leftovers, and the token identifies the run, which finds by it
// leftovers under names that it does not know. The last four digits are random. A dash in place of
// the first marks the old file, moved aside while a new one takes its name.
const (
	tempMark    = ".usftp-"
	tokenBytes  = 4
	serialBytes = 2
	tempEnd     = 2*tokenBytes + 2*serialBytes
	longestName = 255 // that file systems and servers accept, in bytes
)

// SyncLock is the name of the file that keeps other syncs out of a target.
const SyncLock = ".usftp-sync.lock"

// A TempToken is in all temporary names of one run.
type TempToken string

// NewTempToken returns a token that no other run has.
func NewTempToken() TempToken { return TempToken(randomHex(tokenBytes)) }

func randomHex(n int) string {
	random := make([]byte, n)
	rand.Read(random)
	return hex.EncodeToString(random)
}

// Name returns a new temporary name for a target whose last element is base.
func (t TempToken) Name(base string) string {
	return TempPrefix(base) + string(t) + randomHex(serialBytes)
}

// OldName returns a new name for the file that base replaces, while neither has that name.
func (t TempToken) OldName(base string) string {
	return TempPrefix(base) + string(t) + "-" + randomHex(serialBytes)[1:]
}

// TempName returns a new temporary name of a run that has only one.
func TempName(base string) string { return NewTempToken().Name(base) }

// TempPrefix returns the beginning of every temporary name for a target. A name that would become
// too long is cut between two characters and gets a hash of the whole name instead.
func TempPrefix(base string) string {
	const room = longestName - 1 - len(tempMark) - tempEnd
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

// TempTokenOf returns the token of a temporary name, "" if the name is not one.
func TempTokenOf(name string) TempToken {
	token, _, _ := parseTemp(name)
	return token
}

// OldNameOf reports whether a temporary name belongs to a file that was moved aside, and returns
// the name that it had, "" if that was too long to tell.
func OldNameOf(name string) (base string, old bool) {
	_, base, old = parseTemp(name)
	if !old || len(name) >= longestName-utf8.UTFMax {
		base = ""
	}
	return base, old
}

func parseTemp(name string) (token TempToken, base string, old bool) {
	i := strings.LastIndex(name, tempMark)
	if i < 1 || name[0] != '.' {
		return "", "", false
	}
	end := name[i+len(tempMark):]
	if len(end) != tempEnd {
		return "", "", false
	}
	old = end[2*tokenBytes] == '-'
	digits := end
	if old {
		digits = end[:2*tokenBytes] + end[2*tokenBytes+1:]
	}
	if strings.Trim(digits, "0123456789abcdef") != "" {
		return "", "", false
	}
	return TempToken(end[:2*tokenBytes]), name[1:i], old
}

// IsTempName reports whether a name is a temporary name.
func IsTempName(name string) bool { return TempTokenOf(name) != "" }

// ErrBadName reports a name from a server that cannot be a file's name.
var ErrBadName = errors.New("server sent an invalid file name")

// CheckName returns nil if a name from elsewhere can be a file's name on this machine.
func CheckName(name string) error {
	if name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return ErrBadName
	}
	if err := CheckReserved(name); err != nil {
		return fmt.Errorf("%w: %w", ErrBadName, err)
	}
	if !filepath.IsLocal(name) {
		return ErrBadName
	}
	return nil
}

// CheckReserved returns nil if this system takes a name for the file that it names, and for no
// other. Systems other than Windows take all names so.
func CheckReserved(name string) error {
	if runtime.GOOS == "windows" {
		return CheckWindows(name)
	}
	return nil
}

// CheckForeignName returns nil if a name from one server can be a file's name on another.
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

// OnlyReadOnly reports whether files here have no permissions but a flag that forbids writing. Go
// makes permissions for everybody of it.
const OnlyReadOnly = runtime.GOOS == "windows"

// FoldsCase reports whether names that differ only in case are usually the same file here.
const FoldsCase = runtime.GOOS == "darwin" || runtime.GOOS == "windows"
