package verb

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/ui"
)

// StatusOptions are the options of stat.
type StatusOptions struct {
	Follow bool   // -L
	Format string // -c; "" means the default form
	Plain  bool   // --printf: no line break after each, and escapes such as \n
}

// Status implements stat. The protocol has no inodes, devices, link counts, blocks, birth times or
// change times: these are left out, and formats show "?" for them.
func Status(ctx context.Context, env *Env, o StatusOptions, names []string) error {
	j := env.begin(ctx)
	follow := followNever
	if o.Follow {
		follow = followAlways
	}
	found := j.lookup(names, follow, func(name string, err error) { j.fail("stat", name, err) })
	j.names.learn(j.ctx, j.client, found)
	for _, e := range found {
		if j.over() {
			break
		}
		if e.isLink() {
			e.target, _ = j.client.ReadLink(j.at(e.name))
		}
		switch {
		case j.JSON:
			j.printFile(e.name, e)
		case o.Format == "":
			printStatus(j, e)
		case o.Plain:
			j.out.WriteString(formatted(j, e, unescape(o.Format)))
		default:
			j.line(formatted(j, e, o.Format))
		}
	}
	return j.end()
}

// printStatus prints the default form.
func printStatus(j *job, e *entry) {
	name := j.shown(j.Prefix + e.name)
	if e.target != "" {
		name += " -> " + j.shown(e.target)
	}
	j.line("  File: ", name)
	j.line(formatted(j, e, "  Size: %-10s\t%F\nAccess: (%04a/%A)  Uid: (%5u/%8U)   Gid: (%5g/%8G)\n"+
		"Access: %x\nModify: %y"))
}

func longTime(s *usftp.FileStat, t time.Time) string {
	if !s.HasTimes() {
		return "?"
	}
	return t.Local().Format("2006-01-02 15:04:05.000000000 -0700")
}

// formatted expands a format of stat, such as "%n %s".
func formatted(j *job, e *entry, format string) string {
	return expandFormat(format, "", func(name string) string { return field(j, e, name[0]) })
}

// expandFormat replaces the fields of a format, such as %s or %-10s. The name of a field is a
// letter; letters in pairs take a second one, like T in %TY.
func expandFormat(format, pairs string, field func(name string) string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		from := i + 1
		for i++; i < len(format)-1 && strings.IndexByte("-0123456789", format[i]) >= 0; i++ {
		}
		flags, name := format[from:i], format[i:i+1]
		if strings.Contains(pairs, name) && i+1 < len(format) {
			i++
			name += format[i : i+1]
		}
		b.WriteString(padTo(flags, field(name)))
	}
	return b.String()
}

// padTo applies the flags and the width of a format's field.
func padTo(flags, text string) string {
	left := strings.HasPrefix(flags, "-")
	zero := strings.HasPrefix(flags, "0")
	to, err := strconv.Atoi(strings.TrimLeft(flags, "-0"))
	switch {
	case err != nil || to > 1000:
		return text
	case left:
		return padRight(text, to)
	case zero:
		return strings.Repeat("0", max(0, to-len(text))) + text
	}
	return padLeft(text, to)
}

// field returns the text of a format's field.
func field(j *job, e *entry, letter byte) string {
	s := &e.stat
	user, group := j.names.of(s, false)
	number := func(known bool, n uint64) string {
		if !known {
			return "?"
		}
		return strconv.FormatUint(n, 10)
	}
	seconds := func(t time.Time) string {
		if !s.HasTimes() {
			return "?"
		}
		return strconv.FormatInt(t.Unix(), 10)
	}
	switch letter {
	case '%':
		return "%"
	case 'n':
		return j.shown(j.Prefix + e.name)
	case 'N':
		name := j.quoted(e.name)
		if e.target != "" {
			name += " -> " + quoted(e.target)
		}
		return name
	case 's':
		return number(s.HasSize(), s.Size)
	case 'A':
		return modeString(s)
	case 'a', 'f':
		if !s.HasMode() {
			return "?"
		} else if letter == 'a' {
			return strconv.FormatUint(uint64(s.Mode&allModeBits), 8)
		}
		return strconv.FormatUint(uint64(s.Mode), 16)
	case 'F':
		if s.HasSize() && s.Size == 0 && typeOf(s).name == "file" {
			return "regular empty file"
		}
		return typeOf(s).stat
	case 'u':
		return number(s.HasOwner(), uint64(s.UID))
	case 'g':
		return number(s.HasOwner(), uint64(s.GID))
	case 'U':
		return ui.Printable(user)
	case 'G':
		return ui.Printable(group)
	case 'x':
		return longTime(s, s.AccessTime())
	case 'y':
		return longTime(s, s.ModTime())
	case 'X':
		return seconds(s.AccessTime())
	case 'Y':
		return seconds(s.ModTime())
	}
	return "?"
}

// unescape replaces printf's escapes. As in GNU's stat, octal numbers have up to three digits and
// hexadecimal ones up to two, and other characters stand for themselves.
func unescape(format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '\\' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		number := func(digits string, most, base int) {
			from := i
			for i < len(format) && i < from+most && strings.IndexByte(digits, format[i]) >= 0 {
				i++
			}
			n, _ := strconv.ParseUint(format[from:i], base, 16)
			b.WriteByte(byte(n))
			i--
		}
		const hexadecimal = "0123456789abcdefABCDEF"
		switch c := format[i]; {
		case '0' <= c && c <= '7':
			number("01234567", 3, 8)
		case c == 'x' && i+1 < len(format) && strings.IndexByte(hexadecimal, format[i+1]) >= 0:
			i++
			number(hexadecimal, 2, 16)
		default:
			if at := strings.IndexByte("abefnrtv", c); at >= 0 {
				c = "\a\b\x1b\f\n\r\t\v"[at]
			}
			b.WriteByte(c)
		}
	}
	return b.String()
}
