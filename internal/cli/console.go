package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// A console is standard error: messages, and on a terminal one line that moves. Messages go above
// that line.
type console struct {
	file *os.File

	mu  sync.Mutex
	bar io.Writer // writes above the line that moves; nil when there is none
}

func newConsole(f *os.File) *console { return &console{file: f} }

// terminal tells whether a person is looking.
func (c *console) terminal() bool { return term.IsTerminal(int(c.file.Fd())) }

// Write writes text that is fit for a terminal.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bar != nil {
		if n, err := c.bar.Write(p); err == nil {
			return n, nil
		}
	}
	return c.file.Write(p)
}

// above sends what is written from now on to w, until it is called with nil.
func (c *console) above(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bar = w
}

// say writes one line.
func (c *console) say(text string) { fmt.Fprintf(c, "usftp: %s\n", printable(text)) }

// logger gives what -v shows: nothing but warnings, and at -1 not even those, what is done, or
// everything.
func (c *console) logger(verbose int) *slog.Logger {
	switch verbose {
	case -1:
		return slog.New(&logHandler{console: c, level: slog.LevelError})
	case 0:
		return slog.New(&logHandler{console: c, level: slog.LevelWarn})
	case 1:
		return slog.New(&logHandler{console: c, level: slog.LevelInfo})
	}
	return slog.New(&logHandler{console: c, level: slog.LevelDebug})
}

// A logHandler writes a record as a line for people: no time, no level, the attributes behind.
type logHandler struct {
	console *console
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
	h.console.say(b.String())
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

// WithGroup is not used by any package of ours.
func (h *logHandler) WithGroup(string) slog.Handler { return h }

func writeAttr(b *strings.Builder, a slog.Attr) {
	fmt.Fprintf(b, " %s=%v", a.Key, a.Value.Resolve())
}
