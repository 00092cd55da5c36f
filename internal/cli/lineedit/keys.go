package lineedit

import (
	"strings"
	"unicode/utf8"
)

// A key is what was pressed: a command, or text to insert.
type key struct {
	command command
	text    string
}

// A command is what a key does. The keys are those of Emacs, readline and libedit.
type command int

const (
	unknown command = iota
	insert
	accept
	interrupt
	endOrDelete // Ctrl-D: the end of input in an empty line
	complete
	suspend
	clearScreen
	refresh

	toStart
	toEnd
	left
	right
	wordLeft
	wordRight

	backspace
	deleteRight
	killToStart
	killToEnd
	killSpaceLeft // Ctrl-W: up to a space
	killWordLeft
	killWordRight
	yank
	transpose
	undo

	older
	newer
	search
	cancel
)

// controls are the keys below space.
var controls = map[byte]command{
	'A' - '@': toStart, 'B' - '@': left, 'C' - '@': interrupt, 'D' - '@': endOrDelete,
	'E' - '@': toEnd, 'F' - '@': right, 'G' - '@': cancel, 'H' - '@': backspace, '\t': complete,
	'\n': accept, 'K' - '@': killToEnd, 'L' - '@': clearScreen, '\r': accept, 'N' - '@': newer,
	'P' - '@': older, 'R' - '@': search, 'T' - '@': transpose, 'U' - '@': killToStart,
	'W' - '@': killSpaceLeft, 'Y' - '@': yank, 'Z' - '@': suspend, '_' - '@': undo, 0x7f: backspace,
}

// sequences are what terminals send after ESC: xterm's keys with and without modifiers, those of
// rxvt and the Linux console, and letters that are typed with Alt.
var sequences = map[string]command{
	"[A": older, "[B": newer, "[C": right, "[D": left, "[H": toStart, "[F": toEnd,
	"OA": older, "OB": newer, "OC": right, "OD": left, "OH": toStart, "OF": toEnd,
	"[1~": toStart, "[4~": toEnd, "[7~": toStart, "[8~": toEnd, "[3~": deleteRight,
	"[1;5C": wordRight, "[1;5D": wordLeft, "[1;3C": wordRight, "[1;3D": wordLeft,
	"Oc": wordRight, "Od": wordLeft, "\x1b[C": wordRight, "\x1b[D": wordLeft,
	"[3;5~": killWordRight, "[3;3~": killWordRight,
	"f": wordRight, "b": wordLeft, "d": killWordRight, "\x7f": killWordLeft, "\b": killWordLeft,
}

// Bracketed paste: what is between the two was not typed.
const (
	pasteBegins = "[200~"
	pasteEnds   = "\x1b[201~"
)

// maxSequence is the most bytes of one that are waited for.
const maxSequence = 16

// decode takes the first key from what was read. n is 0 if more is needed.
func decode(b []byte) (k key, n int) {
	switch {
	case len(b) == 0:
		return k, 0
	case b[0] == 0x1b:
		return decodeSequence(b)
	case b[0] < 0x20 || b[0] == 0x7f:
		return key{command: controls[b[0]]}, 1
	case !utf8.FullRune(b):
		return k, 0
	}
	_, n = utf8.DecodeRune(b)
	return key{insert, string(b[:n])}, n
}

func decodeSequence(b []byte) (k key, n int) {
	n = sequenceLen(b[1:])
	if n == 0 {
		if len(b) > maxSequence {
			return k, len(b)
		}
		return k, 0
	}
	sequence := string(b[1 : 1+n])
	if sequence == pasteBegins {
		text, _, done := strings.Cut(string(b[1+n:]), pasteEnds)
		if !done {
			return k, 0
		}
		return key{insert, pasted(text)}, 1 + n + len(text) + len(pasteEnds)
	}
	return key{command: sequences[sequence]}, 1 + n
}

// sequenceLen is how long the sequence is that follows an ESC, by ECMA-48, section 5.4; 0 if it is
// not complete.
func sequenceLen(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case 0x1b: // Alt and an arrow
		if n := sequenceLen(b[1:]); n > 0 {
			return 1 + n
		}
		return 0
	case 'O':
		if len(b) < 2 {
			return 0
		}
		return 2
	case '[':
		for i := 1; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
		}
		return 0
	}
	return 1
}

// pasted makes one line of what was pasted: Enter runs it, and not what was in the clipboard.
func pasted(text string) string {
	text = strings.TrimRight(text, "\r\n")
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
