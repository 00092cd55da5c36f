package opt

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/usftp/usftp/internal/ui"
)

// A modeChange is one of the changes of --chmod. They follow rsync: like those of chmod(1), each
// after a D if it is for directories or an F if it is for files, but with one operator, and numbers
// that set all bits.
type modeChange struct {
	dirs, files bool // only
	keep, set   uint32
	onlyX       bool   // files get x only if they had one
	copied      string // the class, u, g or o, whose permissions are set or removed; or ""
	copies      uint32 // to these bits
	removes     bool
}

const (
	modeBits = 0o7777
	sticky   = 0o1000
)

// parseChmod parses the changes of one --chmod, which come after the changes of before.
func parseChmod(text string, before func(fs.FileMode) fs.FileMode) (
	func(fs.FileMode) fs.FileMode, error) {
	var all []modeChange
	for clause := range strings.SplitSeq(text, ",") {
		change, ok := parseChange(clause)
		if !ok {
			return nil, fmt.Errorf("invalid mode %q", clause)
		}
		all = append(all, change)
	}
	return func(mode fs.FileMode) fs.FileMode {
		if before != nil {
			mode = before(mode)
		}
		bits, hadX := uint32(mode.Perm()), mode&0o111 != 0
		for special, bit := range specials {
			if mode&special != 0 {
				bits |= bit
			}
		}
		for _, c := range all {
			bits = c.apply(bits, mode.IsDir(), hadX)
		}
		mode = mode.Type()&^specialModes | fs.FileMode(bits&0o777)
		for special, bit := range specials {
			if bits&bit != 0 {
				mode |= special
			}
		}
		return mode
	}, nil
}

// specials are the bits of modes besides the permissions.
var specials = map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000,
	fs.ModeSticky: sticky}

const specialModes = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

func (c *modeChange) apply(bits uint32, dir, hadX bool) uint32 {
	if c.dirs && !dir || c.files && dir {
		return bits
	}
	if c.copied != "" {
		set := (bits >> (3 * strings.Index("ogu", c.copied)) & 7) * 0o111 & c.copies
		if c.removes {
			return bits &^ set
		}
		return bits&c.keep | set
	}
	set := c.set
	if c.onlyX && !dir && !hadX {
		set &^= 0o111
	}
	return bits&c.keep | set
}

func parseChange(text string) (c modeChange, ok bool) {
	for text != "" && (text[0] == 'D' || text[0] == 'F') {
		c.dirs, c.files = c.dirs || text[0] == 'D', c.files || text[0] == 'F'
		text = text[1:]
	}
	if c.dirs && c.files || text == "" {
		return c, false
	}
	if text[0] >= '0' && text[0] <= '7' {
		mode, err := strconv.ParseUint(text, 8, 32)
		c.set = uint32(mode)
		return c, err == nil && mode <= modeBits
	}
	i := strings.IndexAny(text, "+-=")
	if i < 0 {
		return c, false
	}
	var who, special uint32 // the classes, each by its lowest bit, and the bits of s
	for _, class := range text[:i] {
		switch class {
		case 'u':
			who, special = who|0o100, special|0o4000
		case 'g':
			who, special = who|0o010, special|0o2000
		case 'o':
			who |= 0o001
		case 'a':
			who |= 0o111
		default:
			return c, false
		}
	}
	var what, top uint32
	rights := text[i+1:]
	if rights == "u" || rights == "g" || rights == "o" {
		c.copied, rights = rights, ""
	}
	for _, right := range rights {
		switch right {
		case 'r':
			what |= 4
		case 'w':
			what |= 2
		case 'X':
			c.onlyX = true
			what |= 1
		case 'x':
			what |= 1
		case 's':
			if top |= special; special == 0 {
				top |= 0o4000
			}
		case 't':
			top |= sticky
		default:
			return c, false
		}
	}
	masked := uint32(0)
	if who == 0 {
		who, masked = 0o111, ui.Umask()
	}
	bits := who * what &^ masked
	c.copies, c.removes = who*7&^masked, text[i] == '-'
	switch text[i] {
	case '+':
		c.keep, c.set = modeBits, bits|top
	case '-':
		c.keep = modeBits &^ (bits | top)
	case '=':
		c.keep, c.set = modeBits&^(who*7), bits|top
		if top != 0 {
			c.keep &^= special
		}
		if c.copied != "" { // rsync takes it for all bits of the class
			c.keep &^= who&0o100*0o40 | who&0o010*0o200 | who&0o001*0o1000
		}
	}
	return c, true
}
