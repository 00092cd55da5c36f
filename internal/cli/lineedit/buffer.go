package lineedit

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// A buffer is the line that is being edited: characters as a person sees them (grapheme clusters),
// and the cursor before one of them.
type buffer struct {
	cells  []string
	at     int
	killed string
	undos  []state
}

// A state is a line as it was.
type state struct {
	text string
	at   int
}

// maxUndo is how many states are kept.
const maxUndo = 100

func cellsOf(text string) (cells []string) {
	for g := uniseg.NewGraphemes(text); g.Next(); {
		cells = append(cells, g.Str())
	}
	return cells
}

func (b *buffer) String() string { return strings.Join(b.cells, "") }

// offset is the cursor's place in bytes.
func (b *buffer) offset() int { return len(strings.Join(b.cells[:b.at], "")) }

// set replaces the line. The cursor comes before the byte at offset.
func (b *buffer) set(text string, offset int) {
	b.cells = cellsOf(text)
	b.at = len(cellsOf(text[:offset]))
}

// save keeps the line for undo.
func (b *buffer) save() {
	b.undos = append(b.undos, state{b.String(), b.offset()})
	if len(b.undos) > maxUndo {
		b.undos = b.undos[1:]
	}
}

func (b *buffer) undo() {
	if n := len(b.undos); n > 0 {
		last := b.undos[n-1]
		b.undos = b.undos[:n-1]
		b.set(last.text, last.at)
	}
}

// insert inserts text at the cursor. The whole is divided again: an accent joins what it follows.
func (b *buffer) insert(text string) {
	line, offset := b.String(), b.offset()
	b.set(line[:offset]+text+line[offset:], offset+len(text))
}

// remove removes the characters between two places and puts the cursor there.
func (b *buffer) remove(from, to int) (removed string) {
	removed = strings.Join(b.cells[from:to], "")
	b.cells = append(b.cells[:from:from], b.cells[to:]...)
	b.at = from
	return removed
}

// kill removes like remove, for yank.
func (b *buffer) kill(from, to int) {
	if from < to {
		b.killed = b.remove(from, to)
	}
}

// wordLeft is where the word to the left begins.
func (b *buffer) wordLeft(inWord func(string) bool) int {
	i := b.at
	for i > 0 && !inWord(b.cells[i-1]) {
		i--
	}
	for i > 0 && inWord(b.cells[i-1]) {
		i--
	}
	return i
}

// wordRight is where the word to the right ends.
func (b *buffer) wordRight() int {
	i := b.at
	for i < len(b.cells) && !isLetter(b.cells[i]) {
		i++
	}
	for i < len(b.cells) && isLetter(b.cells[i]) {
		i++
	}
	return i
}

func isLetter(cell string) bool {
	r, _ := utf8.DecodeRuneInString(cell)
	return unicode.IsLetter(r) || unicode.IsNumber(r)
}

func isNoSpace(cell string) bool { return cell != " " }

// transpose swaps the characters around the cursor.
func (b *buffer) transpose() {
	if len(b.cells) < 2 || b.at == 0 {
		return
	}
	i := min(b.at, len(b.cells)-1)
	b.cells[i-1], b.cells[i] = b.cells[i], b.cells[i-1]
	b.at = i + 1
}

// edit does what a key asks for, and reports whether it was an editing key.
func (b *buffer) edit(k key) bool {
	switch k.command {
	case toStart:
		b.at = 0
	case toEnd:
		b.at = len(b.cells)
	case left:
		b.at = max(0, b.at-1)
	case right:
		b.at = min(len(b.cells), b.at+1)
	case wordLeft:
		b.at = b.wordLeft(isLetter)
	case wordRight:
		b.at = b.wordRight()
	case undo:
		b.undo()
	case insert, backspace, deleteRight, endOrDelete, killToStart, killToEnd, killSpaceLeft,
		killWordLeft, killWordRight, yank, transpose:
		b.save()
		b.change(k)
	default:
		return false
	}
	return true
}

func (b *buffer) change(k key) {
	switch k.command {
	case insert:
		b.insert(k.text)
	case yank:
		b.insert(b.killed)
	case backspace:
		b.remove(max(0, b.at-1), b.at)
	case deleteRight, endOrDelete:
		b.remove(b.at, min(len(b.cells), b.at+1))
	case killToStart:
		b.kill(0, b.at)
	case killToEnd:
		b.kill(b.at, len(b.cells))
	case killSpaceLeft:
		b.kill(b.wordLeft(isNoSpace), b.at)
	case killWordLeft:
		b.kill(b.wordLeft(isLetter), b.at)
	case killWordRight:
		b.kill(b.at, b.wordRight())
	case transpose:
		b.transpose()
	}
}
