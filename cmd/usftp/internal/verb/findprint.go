package verb

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/usftp/usftp"
)

// The widths of find -ls, which cannot align files that it has not seen yet.
const (
	findOwnerWidth = 8
	findSizeWidth  = 8
)

// list carries out -ls: a line of ls -l, with the path. The protocol has no inodes and blocks.
func (v *visit) list() bool {
	return v.print(func() string {
		target := ""
		if v.entry.target != "" {
			target = " -> " + v.shown(v.entry.target)
		}
		return longLine(v.entry, v.longRow(v.entry, false, false), findOwnerWidth, findOwnerWidth,
			findSizeWidth, v.start, v.shown(v.Prefix+v.path)+target) + "\n"
	})
}

// printfAction returns the action -printf.
func printfAction(e *Expression, format string) (expressionTest, error) {
	format = unescape(format)
	var err error
	expandFormat(format, "AT", func(name string) string {
		switch {
		case len(name) == 2 && timeFormats[name[1]] == "",
			!strings.Contains("%pfhPHdylsmMuUgGtaTA", name[:1]), name == "T", name == "A":
			err = fmt.Errorf("there is nothing for %%%s", name)
		case strings.Contains("ug", name):
			e.owners = true
		case name == "l":
			e.links = true
		}
		return ""
	})
	return func(v *visit) bool {
		return v.print(func() string { return expandFormat(format, "AT", v.field) })
	}, err
}

// statLetters maps letters of find -printf to those of stat -c.
var statLetters = map[string]byte{"%": '%', "s": 's', "m": 'a', "M": 'A', "u": 'U', "g": 'G',
	"U": 'u', "G": 'g'}

// field returns the text of a field of -printf.
func (v *visit) field(name string) string {
	if letter, ok := statLetters[name]; ok {
		return field(v.job, v.entry, letter)
	}
	operand := v.path
	for d := v.in; d != nil; d = d.parent {
		operand = d.path
	}
	switch name {
	case "p":
		return v.shown(v.Prefix + v.path)
	case "f":
		return v.shown(path.Base(v.path))
	case "h":
		name := strings.TrimRight(v.path, "/")
		at := strings.LastIndexByte(name, '/')
		if at < 0 && name != "" {
			return "."
		}
		return v.shown(name[:max(0, at)])
	case "P":
		return v.shown(strings.TrimLeft(strings.TrimPrefix(v.path, operand), "/"))
	case "H":
		return v.shown(operand)
	case "d":
		return strconv.Itoa(v.depth)
	case "l":
		return v.shown(v.entry.target)
	case "y":
		return strings.Replace(string(typeOf(&v.entry.stat).letter), "-", "f", 1)
	case "t":
		return findTime(&v.entry.stat, v.entry.stat.ModTime(), ctimeFormat)
	case "a":
		return findTime(&v.entry.stat, v.entry.stat.AccessTime(), ctimeFormat)
	}
	t := v.entry.stat.ModTime()
	if name[0] == 'A' {
		t = v.entry.stat.AccessTime()
	}
	return findTime(&v.entry.stat, t, timeFormats[name[1]])
}

// wholeSecond is the fraction that GNU's find prints after seconds; the protocol has none.
const wholeSecond = ".0000000000"

// timeFormats are the formats of -printf's %Tk and %Ak for package time, by k.
var timeFormats = map[byte]string{'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2",
	'H': "15", 'I': "03", 'M': "04", 'S': "05" + fraction, 'p': "PM", 'b': "Jan", 'h': "Jan",
	'B': "January", 'a': "Mon", 'A': "Monday", 'j': "002", 'Z': "MST", 'z': "-0700", 'R': "15:04",
	'F': "2006-01-02", 'D': "01/02/06", 'T': "15:04:05" + fraction,
	'+': "2006-01-02+15:04:05" + fraction, 'c': "Mon Jan _2 15:04:05 2006",
	'@': "@", 's': "s"}

// ctimeFormat is the format of times of %t and %a.
const ctimeFormat = "Mon Jan _2 15:04:05" + fraction + " 2006"

// fraction stands for [wholeSecond] in a format of package time, which has at most nine digits.
const fraction = "|"

// findTime returns a time in a format of [timeFormats].
func findTime(s *usftp.FileStat, t time.Time, format string) string {
	switch {
	case !s.HasTimes():
		return "?"
	case format == "s":
		return strconv.FormatInt(t.Unix(), 10)
	case format == "@":
		return strconv.FormatInt(t.Unix(), 10) + wholeSecond
	}
	return strings.Replace(t.Local().Format(format), fraction, wholeSecond, 1)
}
