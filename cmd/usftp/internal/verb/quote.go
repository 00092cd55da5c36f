package verb

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoted quotes a name as rm -v and others do, for a shell to read: in single quotes, with $'...'
// for unprintable characters, including characters of no width. A name whose only special character
// is an apostrophe comes in double quotes.
func quoted(name string) string {
	if strings.Contains(name, "'") && !strings.ContainsFunc(name, specialInDouble) &&
		utf8.ValidString(name) {
		return `"` + name + `"`
	}
	var b strings.Builder
	b.WriteByte('\'')
	open, escaping := true, false // the quotes around printable text, and those of $'...'
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		part := name[i : i+size]
		i += size
		if unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			if escaping {
				b.WriteByte('\'')
				escaping = false
			}
			switch {
			case r == '\'' && open:
				part = `'\''`
			case r == '\'':
				part = `\''`
			case !open:
				b.WriteByte('\'')
			}
			open = true
			b.WriteString(part)
			continue
		}
		if open {
			b.WriteByte('\'')
			open = false
		}
		if !escaping {
			b.WriteString("$'")
			escaping = true
		}
		for _, c := range []byte(part) {
			if at := strings.IndexByte("\a\b\t\n\v\f\r", c); at >= 0 {
				b.WriteString(`\` + "abtnvfr"[at:at+1])
			} else {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
	}
	b.WriteByte('\'') // closes the open quotes
	return b.String()
}

// specialInDouble reports whether a name with this character is not put in double quotes.
func specialInDouble(r rune) bool {
	if r < utf8.RuneSelf {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("%+,-./:@]_ '", r))
	}
	return !unicode.IsPrint(r)
}
