package ui

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// A Console is standard error: messages and, on a terminal, a few lines below them that are
// redrawn.
type Console struct {
	// Words replace the words of libraries by the program's own.
	Words *strings.Replacer

	program string // named at the start of each message
	file    *os.File
	row     *row // of one host among several; it writes to the board's console

	mu    sync.Mutex
	lines func(width int) []string // the lines to redraw; nil if there are none
	drawn int                      // how many of them are on the screen
	stop  chan struct{}            // ends the redrawing
	still bool                     // the terminal cannot redraw: lines are shown only at the end

	// question is the last line of an unanswered question. Nothing is redrawn until the answer.
	question string
}

// Terminal reports whether standard error is a terminal.
func (c *Console) Terminal() bool {
	if c.row != nil {
		return c.row.board.console.Terminal()
	}
	return IsTerminal(c.file)
}

// Write writes text that is safe for a terminal, above the redrawn lines.
func (c *Console) Write(p []byte) (int, error) {
	if c.row != nil {
		return c.row.board.console.Write(c.row.prefixed(p))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(p), c.redraw(p)
}

// redraw replaces the lines on the screen by text and the current lines, in one write. The cursor
// may be in any column, because the terminal shows a typed ^C.
func (c *Console) redraw(text []byte) error {
	var b bytes.Buffer
	lines := c.lines
	if lines != nil && !foreground(c.file) {
		lines, c.drawn = nil, 0 // the screen is the shell's
	}
	if c.drawn > 0 {
		fmt.Fprintf(&b, "\r\x1b[%dA\x1b[J", c.drawn)
	}
	c.drawn = 0
	if c.question != "" && len(text) > 0 {
		text = []byte("\n" + string(text) + c.question)
	}
	b.Write(text)
	if lines != nil && !c.still && c.question == "" {
		for _, line := range lines(Width(c.file)) {
			b.WriteString(line + "\n")
			c.drawn++
		}
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := c.file.Write(b.Bytes())
	return err
}

// ask keeps the screen for a question until answered is called: of several hosts, one may ask for a
// password while others show their progress. Messages are written above the question.
func (c *Console) ask(question string) (answered func()) {
	if c.row != nil {
		return c.row.board.console.ask(question)
	}
	if !c.Terminal() {
		return func() {}
	}
	set := func(line string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.question = line
		c.redraw(nil)
	}
	set(question[strings.LastIndexByte(question, '\n')+1:])
	return func() { set("") }
}

const refreshEvery = 200 * time.Millisecond

// Show redraws lines until Hide. A terminal that cannot move its cursor shows them only then.
func (c *Console) Show(lines func(width int) []string) {
	if c.row != nil {
		c.row.show(lines)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	stop := make(chan struct{})
	c.lines, c.stop = lines, stop
	if c.still = os.Getenv("TERM") == "dumb" || !enableEscapes(c.file); c.still {
		return
	}
	c.redraw(nil)
	go c.keepDrawing(stop)
}

// keepDrawing redraws the lines until stop is closed.
func (c *Console) keepDrawing(stop <-chan struct{}) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	continued, end := continuations()
	defer end()
	for last := time.Now(); ; {
		moved := false
		select {
		case <-stop:
			return
		case <-continued:
			moved = true
		case now := <-tick.C:
			late := now.Sub(last) > 2*refreshEvery
			if last = now; late {
				continue // the program may have been stopped: its SIGCONT may come after the tick
			}
		}
		c.mu.Lock()
		select {
		case <-stop: // hidden while waiting for the lock
		default:
			if moved { // the shell has written below the lines
				c.drawn = 0
			}
			c.redraw(nil)
		}
		c.mu.Unlock()
	}
}

// Hide draws the lines once more and leaves them on the screen.
func (c *Console) Hide() {
	if c.row != nil {
		c.row.show(nil)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.stop)
	c.question, c.still = "", false
	c.redraw(nil)
	c.lines, c.drawn = nil, 0
}

// Say writes one line about an error or a matter that needs attention.
func (c *Console) Say(text string) { c.line(true, text) }

// Tell writes one line about a completed action. It does not name the program: that would look like
// an error.
func (c *Console) Tell(text string) { c.line(false, text) }

// line writes one line. Errors about connections begin with the host's name, which is not repeated.
func (c *Console) line(named bool, text string) {
	if c.row != nil {
		label := c.row.label + ": "
		c.row.board.console.line(named, label+strings.TrimPrefix(text, label))
		return
	}
	if c.Words != nil {
		text = c.Words.Replace(text)
	}
	if text = Printable(text); named {
		text = c.program + ": " + text
	}
	fmt.Fprintln(c, text)
}

// Logger returns a logger for records of at least this level.
func (c *Console) Logger(level slog.Level) *slog.Logger {
	return slog.New(&logHandler{console: c, level: level})
}

// A logHandler writes a record as a line for people: no time, no level, the attributes at the end.
type logHandler struct {
	console *Console
	level   slog.Level
	attrs   string
}

func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, a)
		return true
	})
	h.console.Say(b.String())
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		writeAttr(&b, a)
	}
	with := *h
	with.attrs += b.String()
	return &with
}

// WithGroup does nothing: our packages do not use it.
func (h *logHandler) WithGroup(string) slog.Handler { return h }

func writeAttr(b *strings.Builder, a slog.Attr) {
	fmt.Fprintf(b, " %s=%v", a.Key, a.Value.Resolve())
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// usualWidth is the width of a terminal that does not report one, such as a serial line, or a
// terminal made by expect or a container.
const usualWidth = 80

// Width returns how many columns a terminal has.
func Width(f *os.File) int {
	if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
		return columns
	}
	return usualWidth
}
