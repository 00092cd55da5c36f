package verb

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/usftp/usftp"
)

// An Expression is find's expression, evaluated for each file.
type Expression struct {
	test       expressionTest
	maxDepth   int // negative if there is none
	minDepth   int
	depthFirst bool
	deletes    bool
	owners     bool   // it uses names of owners
	named      string // the last owner that it gives by name, "" if none
	links      bool   // it uses the targets of links
	runs       bool   // it runs programs
	newer      []string
}

// Primaries are the words that start a primary of an expression, with the number of arguments of
// each. For -exec, [Arguments] returns the number.
var Primaries = map[string]int{
	"-name": 1, "-iname": 1, "-path": 1, "-ipath": 1, "-wholename": 1, "-type": 1, "-size": 1,
	"-mtime": 1, "-mmin": 1, "-atime": 1, "-amin": 1, "-newer": 1, "-newermt": 1, "-perm": 1,
	"-user": 1, "-group": 1, "-uid": 1, "-gid": 1, "-maxdepth": 1, "-mindepth": 1, "-empty": 0,
	"-true": 0, "-false": 0, "-depth": 0, "-d": 0, "-print": 0, "-print0": 0, "-ls": 0, "-printf": 1,
	"-exec": 1, "-delete": 0, "-prune": 0,
	"-quit": 0, "-o": 0, "-or": 0, "-a": 0, "-and": 0, "-not": 0, "!": 0, "(": 0, ")": 0,
}

// ParseExpression parses an expression of find. Errors are of type [*ui.UsageError].
func ParseExpression(words []string) (*Expression, error) {
	p := &expressionParser{words: words, e: &Expression{maxDepth: -1}}
	test := always
	if len(words) > 0 {
		var err error
		if test, err = p.or(); err == nil && p.at < len(words) {
			err = fmt.Errorf("%q is not expected here", words[p.at])
		}
		// As with GNU find, so that -delete does not delete files that -prune was meant to keep.
		if err == nil && p.e.deletes && p.prunes && !p.depth {
			err = errors.New("-delete turns on -depth, with which -prune does nothing; use ! -path " +
				"instead, or give -depth as well")
		}
		if err != nil {
			return nil, usage("%w", err)
		}
	}
	if p.e.test = test; !p.acts {
		p.e.test = func(v *visit) bool { return test(v) && v.printPath('\n') }
	}
	return p.e, nil
}

type expressionTest func(v *visit) bool

func always(*visit) bool { return true }

type expressionParser struct {
	words  []string
	at     int
	e      *Expression
	acts   bool // there is an action other than -prune and -quit
	prunes bool // there is a -prune
	depth  bool // there is a -depth
	nest   int
}

// mostNested limits the recursion.
const mostNested = 1000

func (p *expressionParser) peek() string {
	if p.at < len(p.words) {
		return p.words[p.at]
	}
	return ""
}

func (p *expressionParser) or() (expressionTest, error) {
	left, err := p.and()
	for err == nil && (p.peek() == "-o" || p.peek() == "-or") {
		p.at++
		a, b := left, expressionTest(nil)
		b, err = p.and()
		left = func(v *visit) bool { return a(v) || b(v) }
	}
	return left, err
}

func (p *expressionParser) and() (expressionTest, error) {
	left, err := p.not()
	for err == nil && p.at < len(p.words) {
		switch p.peek() {
		case "-o", "-or", ")":
			return left, nil
		case "-a", "-and":
			p.at++
		}
		a, b := left, expressionTest(nil)
		b, err = p.not()
		left = func(v *visit) bool { return a(v) && b(v) }
	}
	return left, err
}

func (p *expressionParser) not() (expressionTest, error) {
	if p.nest++; p.nest > mostNested {
		return nil, errors.New("the expression is nested too deeply")
	}
	defer func() { p.nest-- }()
	switch word := p.peek(); word {
	case "!", "-not":
		p.at++
		test, err := p.not()
		return func(v *visit) bool { return !test(v) }, err
	case "(":
		p.at++
		test, err := p.or()
		if err == nil && p.peek() != ")" {
			err = errors.New(`")" is missing`)
		}
		p.at++
		return test, err
	case "":
		return nil, errors.New("the expression ends too early")
	}
	return p.primary()
}

// UnknownPredicate is the error for a word that is no predicate here. It says what to do instead of
// those that find(1) has.
func UnknownPredicate(word string) error {
	for _, hint := range []struct{ words, text string }{
		{"-regex -iregex -regextype", "use -path with a pattern, or pipe into grep"},
		{"-xdev -mount -fstype", "SFTP does not say where a file system begins"},
		{"-links -inum -samefile", "SFTP has no inode numbers or link counts"},
		{"-ctime -cmin -cnewer", "SFTP has no time of the last change; use -mtime and the like"},
		{"-L -H -follow", "links are not followed"},
		{"-readable -writable -executable", "use -perm"},
		{"-execdir -ok -okdir", "use -exec, after -print to see what it is"},
		{"-fprint -fprintf -fls -fprint0", "redirect the output"},
		{"-daystart", "use -newermt with a time"},
		{"-noleaf", "leave it out"},
	} {
		if slices.Contains(strings.Fields(hint.words), word) {
			return fmt.Errorf("unknown predicate %q; %s", word, hint.text)
		}
	}
	return fmt.Errorf("unknown predicate %q", word)
}

func (p *expressionParser) primary() (expressionTest, error) {
	word := p.peek()
	arguments, known := Primaries[word]
	if !known || word == ")" || word == "-o" || word == "-a" || word == "-or" || word == "-and" {
		return nil, UnknownPredicate(word)
	}
	p.at++
	if word == "-exec" {
		return p.execution()
	}
	argument := ""
	if arguments == 1 {
		if p.at == len(p.words) {
			return nil, fmt.Errorf("%s needs an argument", word)
		}
		argument = p.words[p.at]
		p.at++
	}
	test, err := p.build(word, argument)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", word, argument, err)
	}
	return test, nil
}

// build returns the test or action of a primary.
func (p *expressionParser) build(word, argument string) (expressionTest, error) {
	switch word {
	case "-true":
		return always, nil
	case "-false":
		return func(*visit) bool { return false }, nil
	case "-depth", "-d":
		p.depth, p.e.depthFirst = true, true
		return always, nil
	case "-maxdepth", "-mindepth":
		n, err := strconv.Atoi(argument)
		if err != nil || n < 0 {
			return nil, errors.New("must be a number of levels, such as 2")
		}
		if word == "-maxdepth" {
			p.e.maxDepth = n
		} else {
			p.e.minDepth = n
		}
		return always, nil
	case "-print":
		p.acts = true
		return func(v *visit) bool { return v.printPath('\n') }, nil
	case "-print0":
		p.acts = true
		return func(v *visit) bool { return v.printPath(0) }, nil
	case "-ls":
		p.acts, p.e.owners, p.e.links = true, true, true
		return (*visit).list, nil
	case "-printf":
		p.acts = true
		return printfAction(p.e, argument)
	case "-delete":
		p.acts, p.e.deletes, p.e.depthFirst = true, true, true
		wait := p.at < len(p.words) // the rest of the expression depends on the result
		return func(v *visit) bool { return v.remove(wait) }, nil
	case "-prune":
		p.prunes = true
		return func(v *visit) bool {
			v.prune = true
			return true
		}, nil
	case "-quit":
		return func(v *visit) bool {
			v.quit = true
			return true
		}, nil
	case "-empty":
		return (*visit).empty, nil
	case "-name", "-iname":
		return func(v *visit) bool {
			name := strings.TrimRight(v.entry.name, "/")
			if name == "" {
				name = "/"
			}
			return wildcard(argument, name[strings.LastIndexByte(name[:len(name)-1], '/')+1:],
				word == "-iname")
		}, nil
	case "-path", "-wholename", "-ipath":
		return func(v *visit) bool { return wildcard(argument, v.path, word == "-ipath") }, nil
	case "-type":
		return typeTest(argument)
	case "-size":
		return sizeTest(argument)
	case "-mtime", "-atime":
		return timeTest(argument, 24*time.Hour, word == "-atime")
	case "-mmin", "-amin":
		return timeTest(argument, time.Minute, word == "-amin")
	case "-newer":
		p.e.newer = append(p.e.newer, argument)
		return func(v *visit) bool { return v.newerThan(v.newer[argument]) }, nil
	case "-newermt":
		date, err := ParseDate(argument)
		return func(v *visit) bool { return v.newerThan(date) }, err
	case "-perm":
		return permTest(argument)
	case "-uid", "-gid":
		return numberTest(argument, "owner", func(s *usftp.FileStat) (uint64, bool) {
			if word == "-uid" {
				return uint64(s.UID), s.HasOwner()
			}
			return uint64(s.GID), s.HasOwner()
		})
	}
	return p.ownerTest(word, argument)
}

func (v *visit) newerThan(t time.Time) bool {
	if !v.entry.stat.HasTimes() {
		return v.lacks("times")
	}
	return v.entry.stat.ModTime().After(t)
}

// ownerTest returns -user or -group: a name if the server translates names, or a number.
func (p *expressionParser) ownerTest(word, argument string) (expressionTest, error) {
	p.e.owners = true
	number, err := strconv.ParseUint(argument, 10, 32)
	isNumber := err == nil
	if !isNumber {
		p.e.named = argument
	}
	return func(v *visit) bool {
		s := &v.entry.stat
		if !s.HasOwner() {
			return v.lacks("owner")
		}
		user, group := v.names.known(s.UID, s.GID)
		id := s.UID
		if word == "-group" {
			user, id = group, s.GID
		}
		if !isNumber && !v.names.asked(s, word == "-group") {
			return v.lacks("owner's name")
		}
		return user == argument || isNumber && uint64(id) == number
	}, nil
}

// typeTest returns -type: letters, separated by commas.
func typeTest(argument string) (expressionTest, error) {
	kinds := map[string]uint32{"f": typeFile, "d": typeDir, "l": typeLink, "p": typeFIFO,
		"s": typeSocket, "b": typeBlock, "c": typeChar}
	var wanted []uint32
	for letter := range strings.SplitSeq(argument, ",") {
		kind, ok := kinds[letter]
		if !ok {
			return nil, errors.New("must be f, d, l, p, s, b or c, or several with commas")
		}
		wanted = append(wanted, kind)
	}
	return func(v *visit) bool {
		if !v.entry.stat.HasType() {
			return v.lacks("type")
		}
		return slices.Contains(wanted, v.entry.stat.Mode&typeMask)
	}, nil
}

// compare splits the sign off one of find's numbers: +n is more than n, -n less, and n exactly n.
func compare(argument string) (sign byte, number string) {
	if argument != "" && (argument[0] == '+' || argument[0] == '-') {
		return argument[0], argument[1:]
	}
	return 0, argument
}

// numberTest returns a test of a number, which has a name.
func numberTest(argument, name string,
	value func(s *usftp.FileStat) (n uint64, known bool)) (expressionTest, error) {
	sign, number := compare(argument)
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return nil, errors.New("not a number")
	}
	return func(v *visit) bool {
		switch got, known := value(&v.entry.stat); {
		case !known:
			return v.lacks(name)
		case sign == '+':
			return got > n
		case sign == '-':
			return got < n
		default:
			return got == n
		}
	}, nil
}

// sizeTest returns -size. As in GNU's find, sizes are rounded up to the unit.
func sizeTest(argument string) (expressionTest, error) {
	units := map[byte]uint64{'b': 512, 'c': 1, 'w': 2, 'k': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
	unit := uint64(512)
	if n := len(argument); n > 0 {
		if u, ok := units[argument[n-1]]; ok {
			unit, argument = u, argument[:n-1]
		}
	}
	return numberTest(argument, "size", func(s *usftp.FileStat) (uint64, bool) {
		blocks := s.Size / unit
		if s.Size%unit != 0 {
			blocks++
		}
		return blocks, s.HasSize()
	})
}

// timeTest returns -mtime, -mmin and the like. As in GNU's find, "-mtime n" is from n up to n+1
// days ago, "-mtime +n" at least n+1 days, and "-mmin n" from n-1 up to n minutes.
func timeTest(argument string, unit time.Duration, access bool) (expressionTest, error) {
	sign, number := compare(argument)
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > 1e9 {
		return nil, errors.New("not a number")
	}
	limit := n * unit.Seconds()
	if unit > time.Hour && sign != '-' {
		limit += unit.Seconds()
	}
	return func(v *visit) bool {
		t := v.entry.stat.ModTime()
		if access {
			t = v.entry.stat.AccessTime()
		}
		age := v.start.Sub(t).Seconds()
		switch {
		case !v.entry.stat.HasTimes():
			return v.lacks("times")
		case sign == '+':
			return age > limit
		case sign == '-':
			return age < limit
		}
		return age < limit && age >= limit-unit.Seconds()
	}, nil
}

// permTest returns -perm: a mode exactly, -mode for all of its bits, /mode for any.
func permTest(argument string) (expressionTest, error) {
	kind := byte(0)
	if argument != "" && (argument[0] == '-' || argument[0] == '/') {
		kind, argument = argument[0], argument[1:]
	}
	change, err := parseMode(argument)
	if err != nil {
		return nil, err
	}
	want := change.apply(0, false)
	return func(v *visit) bool {
		got := v.entry.stat.Mode & allModeBits
		switch {
		case !v.entry.stat.HasMode():
			return v.lacks("mode")
		case kind == '-':
			return got&want == want
		case kind == '/':
			return want == 0 || got&want != 0
		}
		return got == want
	}, nil
}
