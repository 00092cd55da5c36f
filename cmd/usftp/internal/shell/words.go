package shell

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/scp"
)

// A word is one word of a command line.
type word struct {
	text       string // without quotes
	pattern    string // the same for path.Match, with quoted characters escaped
	operator   byte   // an unquoted operator of sh in it; 0 if there is none
	start, end int    // its offsets in the line, in bytes
}

// A quoting is a set of rules for splitting a line into words.
type quoting int

const (
	// shQuoting is sh's (POSIX XCU 2.2): a backslash, '...' and "...", and comments where a word
	// could begin. There are no variables, and sh's operators are refused.
	shQuoting quoting = iota
	// sftpQuoting follows OpenSSH's sftp, for its batch files: a backslash also works in '...', and an
	// unquoted # begins a comment anywhere (makeargv in sftp.c).
	sftpQuoting
)

var (
	errQuote     = errors.New("unterminated quote")
	errBackslash = errors.New("the line ends after a backslash")
)

// operators are sh's operators that join commands or redirect their output: `rm -r build; ls docs`
// must not remove docs.
const operators = ";|&<>"

// refuseOperators returns an error if words contain an operator that would be taken for a name.
// sftp takes it for one too, so a batch may have it where sftp would have run the line: with no
// more operands than its commands have, and without flags for rm, which has none there.
func refuseOperators(words []word, q quoting) error {
	i := slices.IndexFunc(words, func(w word) bool { return w.operator != 0 })
	if i < 0 {
		return nil
	}
	flags := 0
	for _, w := range words[1:] {
		if strings.HasPrefix(w.text, "-") {
			flags++
		}
	}
	most, operands := 2, len(words)-1-flags
	rm := strings.EqualFold(words[0].text, "rm")
	if rm {
		most = 1
	}
	if q == sftpQuoting && operands <= most && (!rm || flags == 0) {
		return nil
	}
	return fmt.Errorf("%q has no meaning here: one command per line; put it in quotes if it is part of a name",
		words[i].operator)
}

// split splits a line into words.
func split(line string, q quoting) ([]word, error) {
	words, open := scan(line, q)
	switch open {
	case 0:
		return words, nil
	case '\\':
		return nil, errBackslash
	}
	return nil, errQuote
}

// scan splits a line, even an incomplete one, into words. open is the quote still open at the end
// of the line: ', ", a backslash, or 0.
func scan(line string, q quoting) (words []word, open byte) {
	s := scanner{line: line, quoting: q}
	for s.at < len(s.line) && open == 0 {
		c := s.line[s.at]
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			s.end()
			s.at++
		case c == '#' && (!s.inWord || q == sftpQuoting):
			s.end()
			return s.words, 0
		case c == '\'', c == '"':
			s.begin()
			open = s.quoted(c)
		case c == '\\':
			s.begin()
			if s.at++; s.at == len(s.line) {
				open = '\\'
				break
			}
			s.escaped(s.line[s.at])
			s.at++
		default:
			s.begin()
			if strings.IndexByte(operators, c) >= 0 {
				s.operator = c
			}
			s.plain(c)
			s.at++
		}
	}
	s.end()
	return s.words, open
}

type scanner struct {
	line    string
	quoting quoting
	at      int
	words   []word

	inWord        bool
	start         int
	operator      byte
	text, pattern strings.Builder
}

func (s *scanner) begin() {
	if !s.inWord {
		s.inWord, s.start, s.operator = true, s.at, 0
		s.text.Reset()
		s.pattern.Reset()
	}
}

func (s *scanner) end() {
	if !s.inWord {
		return
	}
	s.inWord = false
	w := word{text: s.text.String(), pattern: scp.PathPattern(s.pattern.String()),
		operator: s.operator, start: s.start, end: s.at}
	if _, err := path.Match(w.pattern, ""); err != nil { // a [ without ] stands for itself
		w.pattern = usftp.QuotePattern(w.text)
	}
	s.words = append(s.words, w)
}

// quoted reads up to the matching quote, and returns the quote if it is missing.
func (s *scanner) quoted(quote byte) (open byte) {
	for s.at++; s.at < len(s.line); s.at++ {
		c := s.line[s.at]
		if c == quote {
			s.at++
			return 0
		}
		if c == '\\' && s.at+1 < len(s.line) && s.backslash(quote, s.line[s.at+1]) {
			s.at++
			continue
		}
		s.escaped(c)
	}
	return quote
}

// backslash handles a backslash and the next byte within quotes, if the pair has a special meaning.
func (s *scanner) backslash(quote, next byte) bool {
	if s.quoting == shQuoting {
		if quote == '\'' || strings.IndexByte("$`\"\\", next) < 0 {
			return false
		}
		s.escaped(next)
		return true
	}
	switch next {
	case quote, '\\':
		s.escaped(next)
	case '?', '[', '*':
		s.escaped('\\')
		s.escaped(next)
	default: // sftp removes the backslash from names that may be patterns, and keeps it in others
		s.plain('\\')
		s.plain(next)
	}
	return true
}

// escaped adds a byte that has lost its special meaning.
func (s *scanner) escaped(c byte) {
	s.text.WriteByte(c)
	if strings.IndexByte(`*?[]\-^!~`, c) >= 0 {
		s.pattern.WriteByte('\\')
	}
	s.pattern.WriteByte(c)
}

// plain adds a byte that keeps its meaning.
func (s *scanner) plain(c byte) {
	s.text.WriteByte(c)
	s.pattern.WriteByte(c)
}

// isPattern reports whether a word may stand for several names: its pattern has an unescaped
// metacharacter.
func (w word) isPattern() bool {
	for i := 0; i < len(w.pattern); i++ {
		switch w.pattern[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

// name returns the name that a word stands for if it is not a pattern.
func (w word) name() string { return scp.Unquote(w.pattern) }

// quote quotes a name so that split with shQuoting returns it unchanged. It continues the open
// quotes, and does not close them.
func quote(name string, open byte) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case open == '\'' && c == '\'':
			b.WriteString(`'\'`)
		case open == '\'':
		case open == '"' && strings.IndexByte("$`\"\\", c) >= 0,
			open == 0 && (strings.IndexByte(" \t'\"\\*?[]#!~&;|<>()$`{}", c) >= 0):
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
