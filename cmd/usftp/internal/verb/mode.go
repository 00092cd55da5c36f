package verb

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/usftp/usftp/internal/ui"
)

// A modeChange is a change for chmod: an octal mode, or a symbolic change.
type modeChange struct {
	octal  bool
	mode   uint32
	digits int // of the octal mode; five digits also set a directory's setuid and setgid bits
	steps  []modeStep
}

// A modeStep is one change, such as "u+x".
type modeStep struct {
	who  uint32 // the bits affected: 04700 for u, 02070 for g, 01007 for o
	all  bool   // no class was given: bits in the umask are kept
	op   byte   // '+', '-' or '='
	bits uint32 // for r, w, x, s and t, in all three classes
	x    bool   // X: x for directories, and for files that have any x
	copy byte   // 'u', 'g' or 'o': copy the permissions of that class
}

const allModeBits = 0o7777

// parseMode parses a mode as chmod does.
func parseMode(text string) (*modeChange, error) {
	if text == "" {
		return nil, errors.New("the mode is empty")
	}
	if text[0] >= '0' && text[0] <= '9' {
		mode, err := strconv.ParseUint(text, 8, 32)
		if err != nil || mode > allModeBits {
			return nil, fmt.Errorf("invalid mode %q", text)
		}
		return &modeChange{octal: true, mode: uint32(mode), digits: len(text)}, nil
	}
	m := new(modeChange)
	for clause := range strings.SplitSeq(text, ",") {
		if err := m.parseClause(clause); err != nil {
			return nil, fmt.Errorf("invalid mode %q", text)
		}
	}
	return m, nil
}

var errMode = errors.New("invalid mode")

// parseClause parses one clause, such as "ug+rw-x".
func (m *modeChange) parseClause(clause string) error {
	var who uint32
	i := 0
	for ; i < len(clause) && strings.IndexByte("ugoa", clause[i]) >= 0; i++ {
		switch clause[i] {
		case 'u':
			who |= 0o4700
		case 'g':
			who |= 0o2070
		case 'o':
			who |= 0o1007
		case 'a':
			who |= allModeBits
		}
	}
	all := i == 0
	if all {
		who = allModeBits
	}
	if i == len(clause) {
		return errMode
	}
	for i < len(clause) {
		step := modeStep{who: who, all: all, op: clause[i]}
		if strings.IndexByte("+-=", step.op) < 0 {
			return errMode
		}
		from := i + 1
		for i = from; i < len(clause) && strings.IndexByte("+-=", clause[i]) < 0; i++ {
			switch c := clause[i]; c {
			case 'r':
				step.bits |= 0o444
			case 'w':
				step.bits |= 0o222
			case 'x':
				step.bits |= 0o111
			case 'X':
				step.x = true
			case 's':
				step.bits |= 0o6000
			case 't':
				step.bits |= 0o1000
			case 'u', 'g', 'o':
				if i != from || i+1 < len(clause) && strings.IndexByte("+-=", clause[i+1]) < 0 {
					return errMode
				}
				step.copy = c
			default:
				return errMode
			}
		}
		m.steps = append(m.steps, step)
	}
	return nil
}

// Idempotent reports whether setting a mode for chmod twice works like once. It does unless the
// mode copies permissions from one class to another, or a step after X changes the bits X checks.
func Idempotent(mode string) bool {
	m, err := parseMode(mode)
	if err != nil {
		return false
	}
	conditional := false
	for _, s := range m.steps {
		if s.copy != 0 || conditional {
			return false
		}
		conditional = s.x
	}
	return true
}

// apply returns the new mode for a file with this mode. As in GNU's chmod, a directory keeps its
// setuid and setgid bits unless they are given explicitly.
func (m *modeChange) apply(mode uint32, dir bool) uint32 {
	mode &= allModeBits
	if m.octal {
		if dir && m.digits < 5 {
			return m.mode | mode&0o6000
		}
		return m.mode
	}
	for _, s := range m.steps {
		mode = s.apply(mode, dir)
	}
	return mode
}

func (s *modeStep) apply(mode uint32, dir bool) uint32 {
	bits := s.bits
	if s.x && (dir || mode&0o111 != 0) {
		bits |= 0o111
	}
	if s.copy != 0 {
		bits = (mode >> (3 * strings.IndexByte("ogu", s.copy)) & 7) * 0o111
	}
	if s.all {
		bits &^= ui.Umask() // the host's umask is not known
	}
	bits &= s.who
	switch s.op {
	case '+':
		return mode | bits
	case '-':
		return mode &^ bits
	}
	keep := allModeBits &^ s.who
	if dir { // unless given explicitly
		keep |= 0o6000 &^ (s.bits & s.who)
	}
	return mode&keep | bits
}

// CheckMode returns the mistake in a mode for chmod or mkdir -m, or nil.
func CheckMode(mode string) error {
	_, err := parseMode(mode)
	return err
}
