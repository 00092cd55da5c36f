package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// printable makes text of any origin fit for a terminal and for one line: names and messages of a
// server could otherwise move the cursor, change the title, or turn the direction of writing and so
// forge what a person reads.
func printable(s string) string { return escape(s, false) }

// printableLines is printable for text that may have several lines.
func printableLines(s string) string { return escape(strings.ReplaceAll(s, "\r\n", "\n"), true) }

func escape(s string, lines bool) string {
	clean := true
	for _, r := range s {
		clean = clean && r != utf8.RuneError && unicode.IsPrint(r)
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r), lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

// count writes a number of things.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// amount writes a number of bytes with three or four digits, in the decimal units that links are
// measured in.
func amount(n float64) string {
	if n < 1000 {
		return fmt.Sprintf("%.0f B", n)
	}
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		n /= 1000
		switch {
		case n < 9.995:
			return fmt.Sprintf("%.2f %s", n, unit)
		case n < 99.95:
			return fmt.Sprintf("%.1f %s", n, unit)
		case n < 999.5:
			return fmt.Sprintf("%.0f %s", n, unit)
		}
	}
	return fmt.Sprintf("%.0f EB", n/1000)
}

func rate(bytes int64, in time.Duration) string {
	if in <= 0 {
		return "- B/s"
	}
	return amount(float64(bytes)/in.Seconds()) + "/s"
}

// clock writes a time as people read it off a progress line.
func clock(d time.Duration) string {
	s := int64((d + time.Second/2) / time.Second)
	if s >= 100*3600 {
		return fmt.Sprintf("%dd", s/86400)
	}
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}
