package ui

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable makes text of any origin safe for one line on a terminal: names and messages from a
// server could otherwise move the cursor, change the title, or reverse the writing direction and so
// forge the text that the user reads.
func Printable(s string) string { return escape(s, false) }

// printableLines works like Printable for text that may have several lines.
func printableLines(s string) string { return escape(strings.ReplaceAll(s, "\r\n", "\n"), true) }

func escape(s string, lines bool) string {
	unsafe := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	if !strings.ContainsFunc(s, unsafe) {
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

// Count formats a number of things.
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Amount formats a number of bytes with three or four digits, in the decimal units in which links
// are measured.
func Amount(n float64) string {
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

func Rate(bytes int64, in time.Duration) string {
	if in <= 0 {
		return "- B/s"
	}
	return Amount(float64(bytes)/in.Seconds()) + "/s"
}

// Clock formats a time for a progress line.
func Clock(d time.Duration) string {
	s := int64((d + time.Second/2) / time.Second)
	if s >= 100*3600 {
		return fmt.Sprintf("%dd", s/86400)
	}
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// ShellWord quotes an argument if a shell would not take it literally. Characters unsafe for
// terminals are written as $'\x1b', which bash, zsh and others understand.
func ShellWord(arg string) string {
	if plainWord.MatchString(arg) {
		return arg
	}
	if Printable(arg) == arg {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(arg) {
		switch {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return "$'" + b.String() + "'"
}

// CommandLine returns a shell command that runs the command with these arguments again, with flags
// after the verb unless they were given.
func CommandLine(args []string, verb string, flags ...string) string {
	words := []string{"usftp"}
	at := slices.Index(args, verb)
	for i, arg := range args {
		words = append(words, ShellWord(arg))
		if i != at {
			continue
		}
		for _, flag := range flags {
			if !slices.Contains(args, flag) {
				words = append(words, flag)
			}
		}
	}
	return strings.Join(words, " ")
}

// EscapeJSON escapes the characters in JSON text that Printable would escape: characters that a
// terminal obeys, or that make it show another text.
func EscapeJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, unprintable) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case !unprintable(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r) // RFC 8259, section 7
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.Bytes()
}

func unprintable(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
