package lineedit

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/usftp/usftp/internal/cli/ui"
)

// A screen is the part of a terminal that shows the line, in as many rows as it needs.
type screen struct {
	out   io.Writer
	width func() int

	// what is shown
	cells []string // prompt and line
	at    int      // the cursor
}

// A place is a row and a column, from where the prompt begins.
type place struct{ row, column int }

// layout finds where the cells and the cursor come to be. Rows are ended here and not by the
// terminal: terminals differ in what they do at the right edge.
func layout(cells []string, at, width int) (breaks []int, cursor, end place) {
	var p place
	for i, cell := range cells {
		w := runewidth.StringWidth(cell)
		if p.column+w > width {
			breaks = append(breaks, i)
			p = place{p.row + 1, 0}
		}
		if i == at {
			cursor = p
		}
		p.column += w
	}
	if p.column >= width {
		breaks = append(breaks, len(cells))
		p = place{p.row + 1, 0}
	}
	if at >= len(cells) {
		cursor = p
	}
	return breaks, cursor, p
}

// erase goes back to where the prompt begins and clears everything from there. If the terminal has
// another width by now, it has moved the rows accordingly.
func (s *screen) erase(b *bytes.Buffer) {
	_, cursor, _ := layout(s.cells, s.at, s.columns())
	b.WriteByte('\r')
	if cursor.row > 0 {
		fmt.Fprintf(b, "\x1b[%dA", cursor.row)
	}
	b.WriteString("\x1b[J")
	s.cells, s.at = nil, 0
}

func (s *screen) columns() int { return max(s.width(), 2) }

// draw shows a prompt and a line, in place of what was shown.
func (s *screen) draw(prompt string, line []string, at int) {
	var b bytes.Buffer
	s.erase(&b)
	s.cells = cellsOf(prompt)
	s.at = len(s.cells) + at
	for _, cell := range line {
		s.cells = append(s.cells, ui.Printable(cell)) // names come from servers
	}
	breaks, cursor, end := layout(s.cells, s.at, s.columns())
	for i, cell := range s.cells {
		if len(breaks) > 0 && breaks[0] == i {
			b.WriteString("\r\n")
			breaks = breaks[1:]
		}
		b.WriteString(cell)
	}
	if len(breaks) > 0 {
		b.WriteString("\r\n")
	}
	if end.row > cursor.row {
		fmt.Fprintf(&b, "\x1b[%dA", end.row-cursor.row)
	}
	if cursor != end {
		b.WriteByte('\r')
		if cursor.column > 0 {
			fmt.Fprintf(&b, "\x1b[%dC", cursor.column)
		}
	}
	s.out.Write(b.Bytes())
}

// leave ends the line: what comes next is written below it.
func (s *screen) leave(text string) {
	_, cursor, end := layout(s.cells, s.at, s.columns())
	down := strings.Repeat("\n", end.row-cursor.row)
	if end.column == 0 && end.row > 0 && text == "" {
		io.WriteString(s.out, down+"\r")
	} else {
		io.WriteString(s.out, down+text+"\r\n")
	}
	s.cells, s.at = nil, 0
}

// columnsOf writes names in columns, as ls does.
func columnsOf(names []string, width int) string {
	widest := 0
	for _, name := range names {
		widest = max(widest, runewidth.StringWidth(name))
	}
	columns := max(1, width/(widest+2))
	rows := (len(names) + columns - 1) / columns
	var b strings.Builder
	for row := range rows {
		for i := row; i < len(names); i += rows {
			b.WriteString(names[i])
			if i+rows < len(names) {
				b.WriteString(strings.Repeat(" ", widest+2-runewidth.StringWidth(names[i])))
			}
		}
		b.WriteString("\r\n")
	}
	return b.String()
}
