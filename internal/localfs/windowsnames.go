package localfs

import (
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Reasons why Windows does not take a name for one of its own files. A program that uses such a
// name as a path opens something else, which a server may have chosen the name for.
var (
	errDevice    = errors.New("for Windows it is a device")
	errCharacter = errors.New(`on Windows no name has one of <>:"/\|?* or a control character`)
	errEnd       = errors.New("on Windows a name loses dots and spaces at its end")
	errShort     = errors.New("on Windows it may be the short form of another name")
	errNotUTF16  = errors.New("not UTF-8, in which Windows has its names")
)

// CheckWindows returns nil if a name is a name of one file on Windows, in any version.
func CheckWindows(name string) error {
	switch {
	case strings.ContainsFunc(name, func(c rune) bool {
		return c < 0x20 || strings.ContainsRune(`<>:"/\|?*`, c)
	}):
		return errCharacter
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return errEnd
	case isDevice(name):
		return errDevice
	case isShort(name):
		return errShort
	case !isWTF8(name):
		return errNotUTF16
	}
	return nil
}

// isDevice reports whether a name is reserved. An extension makes no difference before Windows 11,
// and spaces before it never do.
func isDevice(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	name = strings.ToUpper(strings.TrimRight(name, " "))
	switch name {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, ok := strings.CutPrefix(name, "COM")
	if !ok {
		port, ok = strings.CutPrefix(name, "LPT")
	}
	return ok && utf8.RuneCountInString(port) == 1 &&
		strings.Contains("0123456789\u00b9\u00b2\u00b3", port)
}

// isShort reports whether a name looks like one that Windows gives to a file besides its own: up to
// eight characters that end in a tilde and a number, and an extension of up to three.
func isShort(name string) bool {
	base, ext, _ := strings.Cut(name, ".")
	tilde := strings.LastIndexByte(base, '~')
	return tilde > 0 && tilde < len(base)-1 && len(base) <= 8 && len(ext) <= 3 &&
		strings.Trim(base[tilde+1:], "0123456789") == "" && !strings.ContainsAny(name, " ") &&
		!strings.Contains(ext, ".")
}

// isWTF8 reports whether a name comes back the same from UTF-16 that need not be Unicode. There,
// each half of a surrogate pair may stand alone, and Go encodes it as three bytes
// (https://wtf-8.codeberg.page). Anything else that is not UTF-8 would become U+FFFD, and so would
// the next such name; two halves in a row would become one character.
func isWTF8(name string) bool {
	afterHigh := false
	for i := 0; i < len(name); {
		c, n := utf8.DecodeRuneInString(name[i:])
		if c == utf8.RuneError && n == 1 {
			if len(name)-i < 3 || name[i] != 0xed || name[i+1]&0xe0 != 0xa0 ||
				name[i+2]&0xc0 != 0x80 {
				return false
			}
			n = 3
			c = rune(name[i]&0x0f)<<12 | rune(name[i+1]&0x3f)<<6 | rune(name[i+2]&0x3f)
			if low := c >= 0xdc00; low && afterHigh {
				return false
			}
		}
		afterHigh = utf16.IsSurrogate(c) && c < 0xdc00
		i += n
	}
	return true
}
