package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// A Board is the screen of a command that works on several hosts at once: messages and output
// prefixed with the host's name, and a progress line for each.
type Board struct {
	console *Console
	out     io.Writer
	json    bool

	mu   sync.Mutex
	rows []*row
	wide int // width of the longest label
}

// NewBoard returns the board of a run. With json, each object that a host's App prints gets a field
// "on" with the host's label.
func (a *App) NewBoard(json bool) *Board {
	return &Board{console: a.Console, out: a.Out, json: json}
}

// Show draws the hosts' progress lines until Hide. It does nothing if there is no terminal.
func (b *Board) Show() {
	if b.console.Terminal() {
		b.console.Show(b.text)
	}
}

// Hide removes the lines from the screen.
func (b *Board) Hide() {
	b.mu.Lock()
	b.rows = nil
	b.mu.Unlock()
	if b.console.Terminal() {
		b.console.Hide()
	}
}

// App returns the App for one host. Close its Out when the host is done.
func (b *Board) App(a *App, label string) *App {
	r := &row{board: b, label: label}
	b.mu.Lock()
	b.rows = append(b.rows, r)
	b.wide = max(b.wide, runewidth.StringWidth(Printable(label)))
	b.mu.Unlock()
	return &App{Stdin: a.Stdin, Stdout: a.Stdout, Out: &output{w: &rowOutput{row: r}},
		Console: &Console{row: r}, Args: a.Args, Turn: a.Turn, restorer: a.restorer,
		Label: runewidth.StringWidth(Printable(label)) + len(": ")}
}

// text returns the lines for a terminal of this width: the active hosts, as many as fit.
func (b *Board) text(width int) (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most, hidden := b.height(), 0
	for _, r := range b.rows {
		show := r.shown()
		switch {
		case show == nil:
		case len(lines) >= most:
			hidden++
		default:
			label := runewidth.Truncate(Printable(r.label), min(b.wide, width/3), "...")
			label = runewidth.FillRight(label, min(b.wide, width/3))
			if text := show(width - runewidth.StringWidth(label) - 1); len(text) > 0 {
				lines = append(lines, label+" "+text[0])
			}
		}
	}
	if hidden > 0 {
		lines = append(lines, runewidth.Truncate(fmt.Sprintf("... and %s", Count(int64(hidden),
			"more host", "more hosts")), max(0, width-1), ""))
	}
	return lines
}

// height returns how many hosts fit on the screen, leaving room for the line that counts the others
// and for messages.
func (b *Board) height() int {
	if _, rows, err := term.GetSize(int(b.console.file.Fd())); err == nil && rows > 0 {
		return max(1, rows-3)
	}
	return 20
}

// A row is one host's part of a board.
type row struct {
	board *Board
	label string

	mu    sync.Mutex
	lines func(width int) []string // nil while there is nothing to show
}

func (r *row) show(lines func(width int) []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = lines
}

func (r *row) shown() func(width int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines
}

// prefixed puts the label in front of each line.
func (r *row) prefixed(p []byte) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(string(p)) {
		b.WriteString(Printable(r.label) + ": " + line)
	}
	return b.Bytes()
}

// rowOutput is one host's standard output, line by line.
type rowOutput struct {
	row     *row
	partial []byte
}

func (o *rowOutput) Write(p []byte) (int, error) {
	o.partial = append(o.partial, p...)
	end := bytes.LastIndexByte(o.partial, '\n') + 1
	most := mostPartial
	if o.row.board.json {
		most = mostObject
	}
	if end == 0 && len(o.partial) < most {
		return len(p), nil
	}
	if end == 0 {
		o.partial = append(o.partial, '\n')
		end = len(o.partial)
	}
	_, err := o.row.board.out.Write(o.row.labelled(o.partial[:end]))
	o.partial = append(o.partial[:0], o.partial[end:]...)
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// mostPartial is the length at which a line is cut: printed files need not contain line breaks.
// mostObject is the length of the longest object of --json, which must not be cut.
const (
	mostPartial = 1 << 20
	mostObject  = 16 << 20
)

// Close ends the last line.
func (o *rowOutput) Close() (err error) {
	if len(o.partial) > 0 {
		_, err = o.Write([]byte{'\n'})
	}
	return err
}

// labelled returns output with the host's label: in front of each line, or in each JSON object.
func (r *row) labelled(p []byte) []byte {
	if !r.board.json {
		return r.prefixed(p)
	}
	label, _ := json.Marshal(r.label)
	var b bytes.Buffer
	for line := range strings.Lines(string(p)) {
		if rest, ok := strings.CutPrefix(line, "{"); ok {
			fmt.Fprintf(&b, `{"on":%s,%s`, EscapeJSON(label), rest)
		} else {
			b.WriteString(line)
		}
	}
	return b.Bytes()
}
