// Package lineedit reads lines that a person edits on a terminal: with the keys of Emacs and
// readline, a history, and completion that never holds up what is typed.
package lineedit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/usftp/usftp/internal/cli/ui"
)

// ErrInterrupted reports that Ctrl-C was pressed.
var ErrInterrupted = errors.New("interrupted")

// An Editor reads lines. Its methods are for one goroutine, except Wake.
type Editor struct {
	// In gives keys as a terminal in raw mode sends them. One Read at most is under way, and none
	// after ReadLine has returned a line.
	In io.Reader
	// Out is the terminal, and Width how many columns it has now.
	Out   io.Writer
	Width func() int

	History *History

	// Complete completes the line at a place in bytes. If it cannot tell yet, it returns pending,
	// and is asked again after the next Wake if nothing was typed meanwhile.
	Complete func(line string, at int) (c Completion, pending bool)

	// Suspend, if not nil, stops the program and returns when it goes on, the terminal raw again.
	Suspend func()

	keys   keyboard
	screen screen
	buffer buffer
	prompt string
	waits  bool // a completion is pending
	listed bool // the last key was Tab, and there was nothing to insert
}

// A Completion is what can stand in the line from Start up to the cursor.
type Completion struct {
	Start int
	Text  string   // replaces what is there, as far as all candidates agree
	List  []string // the candidates, if there are several, for people
}

// New returns an editor.
func New(in io.Reader, out io.Writer, width func() int) *Editor {
	e := &Editor{In: in, Out: out, Width: width, History: new(History)}
	e.keys.wake = make(chan struct{}, 1)
	return e
}

// Wake has a pending completion tried again. It may be called from any goroutine, and does not
// wait.
func (e *Editor) Wake() {
	select {
	case e.keys.wake <- struct{}{}:
	default:
	}
}

// ReadLine reads one line. The error is io.EOF at the end of input, ErrInterrupted, or the cause of
// ctx.
func (e *Editor) ReadLine(ctx context.Context, prompt string) (string, error) {
	e.keys.in = e.In
	e.screen = screen{out: e.Out, width: e.Width}
	e.buffer = buffer{killed: e.buffer.killed}
	e.prompt, e.waits, e.listed = prompt, false, false
	e.History.begin()
	for {
		if !e.keys.ready() {
			e.screen.draw(e.prompt, e.buffer.cells, e.buffer.at)
		}
		k, woken, err := e.keys.next(ctx)
		if err != nil {
			e.screen.leave("")
			return "", err
		}
		if woken {
			if e.waits {
				e.complete()
			}
			continue
		}
		done, err := e.press(ctx, k)
		if done || err != nil {
			line := e.buffer.String()
			if err != nil {
				return "", err
			}
			e.History.Add(line)
			return line, nil
		}
	}
}

// press does what a key asks for. done says that the line is complete.
func (e *Editor) press(ctx context.Context, k key) (done bool, err error) {
	e.waits = false
	if k.command != complete {
		e.listed = false
	}
	switch k.command {
	case accept:
		e.buffer.at = len(e.buffer.cells)
		e.screen.draw(e.prompt, e.buffer.cells, e.buffer.at)
		e.screen.leave("")
		return true, nil
	case interrupt:
		e.screen.draw(e.prompt, e.buffer.cells, len(e.buffer.cells))
		e.screen.leave("^C")
		return false, ErrInterrupted
	case endOrDelete:
		if len(e.buffer.cells) == 0 {
			e.screen.leave("")
			return false, io.EOF
		}
		e.buffer.edit(k)
	case complete:
		e.complete()
	case suspend:
		if e.Suspend != nil {
			e.screen.leave("")
			e.Suspend()
		}
	case clearScreen:
		io.WriteString(e.Out, "\x1b[H\x1b[2J")
		e.screen.cells, e.screen.at = nil, 0
	case older:
		e.recall(e.History.older(e.buffer.String()))
	case newer:
		e.recall(e.History.newer(e.buffer.String()))
	case search:
		return e.search(ctx)
	default:
		e.buffer.edit(k)
	}
	return false, nil
}

// recall shows a line of the history.
func (e *Editor) recall(line string, ok bool) {
	if !ok {
		e.bell()
		return
	}
	e.buffer.set(line, len(line))
	e.buffer.undos = nil
}

func (e *Editor) bell() { io.WriteString(e.Out, "\a") }

// maxListed is how many candidates are shown; more scroll out of sight.
const maxListed = 200

// complete completes the word at the cursor, or shows what it could become.
func (e *Editor) complete() {
	if e.Complete == nil {
		return
	}
	line, at := e.buffer.String(), e.buffer.offset()
	c, pending := e.Complete(line, at)
	if e.waits = pending; pending {
		return
	}
	if c.Start > at || c.Text == "" && len(c.List) == 0 {
		e.bell()
		return
	}
	if c.Text != line[c.Start:at] && c.Text != "" {
		e.buffer.save()
		e.buffer.set(line[:c.Start]+c.Text+line[at:], c.Start+len(c.Text))
		return
	}
	if len(c.List) < 2 {
		e.bell()
		return
	}
	if !e.listed { // the first Tab says that there are several, the second one shows them
		e.listed = true
		e.bell()
		return
	}
	list, more := c.List, ""
	if len(list) > maxListed {
		more = fmt.Sprintf("... and %d more\r\n", len(list)-maxListed)
		list = list[:maxListed]
	}
	shown := make([]string, len(list))
	for i, name := range list {
		shown[i] = ui.Printable(name)
	}
	e.screen.leave("")
	io.WriteString(e.Out, columnsOf(shown, e.Width())+more)
}

// search searches the history backwards while the query is typed, as Ctrl-R does in readline. Any
// other key ends the search and does what it does.
func (e *Editor) search(ctx context.Context) (done bool, err error) {
	before := e.buffer
	query, found, from := "", before.String(), e.History.newest()
	for {
		e.screen.draw(fmt.Sprintf("(search)`%s': ", query), cellsOf(found),
			len(cellsOf(found[:max(0, strings.LastIndex(found, query))])))
		k, woken, err := e.keys.next(ctx)
		switch {
		case err != nil:
			return false, err
		case woken:
			continue
		}
		again := false
		switch k.command {
		case insert:
			query += k.text
		case backspace:
			if cells := cellsOf(query); len(cells) > 0 {
				query = strings.Join(cells[:len(cells)-1], "")
			}
			from = e.History.newest()
		case search:
			again = true
		case cancel, interrupt:
			e.buffer = before
			return false, nil
		default:
			e.buffer.set(found, len(found))
			return e.press(ctx, k)
		}
		if line, at, ok := e.History.find(query, from, again, found); ok {
			found, from = line, at
		} else {
			e.bell()
		}
	}
}
