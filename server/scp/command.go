package scp

import (
	"errors"
	"fmt"
	"path"
	"strings"

	protocol "github.com/usftp/usftp/internal/scp"
)

// Command is a client's command line in the old protocol: the arguments of the scp that it expects
// to start.
type Command struct {
	Source      bool // -f: files go to the client
	Sink        bool // -t: files come from the client
	Recursive   bool // -r
	Preserve    bool // -p: times and modes are sent, too
	IsDirectory bool // -d: the target must be a directory
	Paths       []Word
}

// Word is an argument as a shell would parse it.
type Word struct {
	Pattern string // for path.Match: quoted characters are escaped
	Glob    bool   // it has characters special to path.Match
	Tilde   bool   // begins with an unquoted "~"
}

// Literal returns the word without special characters.
func (w Word) Literal() string { return protocol.Unquote(w.Pattern) }

// ErrNotSCP means that a command is not scp.
var ErrNotSCP = errors.New("not an scp command")

// Parse parses a command line as a shell would: words, both kinds of quotes, backslashes. There is
// no shell, so its other features (variables, substitution, pipes, lists, redirection) are errors,
// and nothing is ever run. If the command is not scp, the error is ErrNotSCP.
func Parse(line string) (*Command, error) {
	words, err := split(line)
	if len(words) == 0 || path.Base(words[0].Literal()) != "scp" {
		return nil, ErrNotSCP
	}
	if err != nil {
		return nil, err
	}
	command := &Command{}
	rest := words[1:]
	for len(rest) > 0 {
		argument := rest[0].Literal()
		if argument == "--" {
			rest = rest[1:]
			break
		}
		if len(argument) < 2 || argument[0] != '-' {
			break
		}
		if err := command.flags(argument[1:]); err != nil {
			return nil, err
		}
		rest = rest[1:]
	}
	command.Paths = rest
	switch {
	case command.Source == command.Sink:
		return nil, errors.New("scp: neither -f nor -t, or both")
	case command.Sink && len(rest) != 1, len(rest) == 0:
		return nil, errors.New("scp: wrong number of paths")
	}
	return command, nil
}

func (c *Command) flags(letters string) error {
	for _, letter := range letters {
		switch letter {
		case 'f':
			c.Source = true
		case 't':
			c.Sink = true
		case 'r':
			c.Recursive = true
		case 'p':
			c.Preserve = true
		case 'd':
			c.IsDirectory = true
		case 'v', 'q':
			// verbosity of the other scp's output
		default:
			return fmt.Errorf("scp: unknown option -%c", letter)
		}
	}
	return nil
}

// special are the characters to which a shell gives a meaning beyond words.
const special = "$`;&|<>()\n\r\x00"

// splitter splits a line.
type splitter struct {
	words  []Word
	word   strings.Builder
	inWord bool
	glob   bool
	tilde  bool
}

func split(line string) ([]Word, error) {
	var s splitter
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ' || c == '\t':
			s.end()
		case c == '\'' || c == '"':
			length, err := s.quoted(line[i+1:], c)
			if err != nil {
				return s.words, err
			}
			i += length + 1
		case c == '\\':
			if i++; i == len(line) {
				return s.words, errors.New("scp: the command ends in a backslash")
			}
			s.literal(line[i])
		case strings.IndexByte(special, c) >= 0:
			return s.words, fmt.Errorf("scp: no shell runs here, so %q is not supported", c)
		default:
			s.unquoted(c)
		}
	}
	s.end()
	return s.words, nil
}

// quoted reads the text within quotes and returns its length.
func (s *splitter) quoted(rest string, quote byte) (int, error) {
	s.inWord = true
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		switch {
		case c == quote:
			return i, nil
		case quote == '"' && c == '\\' && i+1 < len(rest) && strings.IndexByte("$`\"\\",
			rest[i+1]) >= 0:
			i++
			s.literal(rest[i])
		case quote == '"' && (c == '$' || c == '`'):
			return 0, fmt.Errorf("scp: no shell runs here, so %q is not supported", c)
		case c == 0:
			return 0, errors.New("scp: NUL in the command")
		default:
			s.literal(c)
		}
	}
	return 0, fmt.Errorf("scp: the command has an unterminated %c", quote)
}

// literal adds a literal character.
func (s *splitter) literal(c byte) {
	s.inWord = true
	if strings.IndexByte(`*?[\`, c) >= 0 {
		s.word.WriteByte('\\')
	}
	s.word.WriteByte(c)
}

// unquoted adds an unquoted character.
func (s *splitter) unquoted(c byte) {
	s.tilde = s.tilde || c == '~' && !s.inWord
	s.glob = s.glob || strings.IndexByte("*?[", c) >= 0
	s.inWord = true
	s.word.WriteByte(c)
}

func (s *splitter) end() {
	if s.inWord {
		s.words = append(s.words, Word{Pattern: s.word.String(), Glob: s.glob, Tilde: s.tilde})
	}
	s.word.Reset()
	s.inWord, s.glob, s.tilde = false, false, false
}
