package site

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/usftp/usftp/internal/ui"
)

// NewHandler returns a handler that logs to the console as text or JSON.
func NewHandler(console *ui.Console, format string, level slog.Leveler) slog.Handler {
	return patiently(console, func(w io.Writer) slog.Handler {
		options := &slog.HandlerOptions{Level: level}
		if format == "json" {
			return slog.NewJSONHandler(escapingWriter{w}, options)
		}
		return slog.NewTextHandler(w, options)
	})
}

// escapingWriter escapes in JSON the characters that the text format escapes.
type escapingWriter struct{ w io.Writer }

func (e escapingWriter) Write(p []byte) (int, error) {
	line := bytes.TrimSuffix(p, []byte("\n"))
	_, err := e.w.Write(append(ui.EscapeJSON(line), '\n'))
	return len(p), err
}

// patiently returns a handler that does not hang with w, such as a pipe that nobody reads or a file
// on a server that is away: every session would hang with it.
func patiently(w io.Writer, newHandler func(io.Writer) slog.Handler) slog.Handler {
	return newHandler(&patientWriter{w: w, lost: func(lines int) []byte {
		var line bytes.Buffer
		slog.New(newHandler(&line)).Error("log lines were lost", "lines", lines)
		return line.Bytes()
	}})
}

const (
	logPatience = 2 * time.Second
	mostUnread  = 1 << 20 // bytes of lines
)

// patientWriter writes a line before Write returns, unless that takes longer than logPatience. Then
// lines are kept, up to mostUnread, until all of them are written. Those beyond are lost, and those
// that cannot be written; another line says how many.
type patientWriter struct {
	w    io.Writer
	lost func(lines int) []byte

	mu      sync.Mutex
	unread  []line
	size    int
	missing int
	writing bool
	behind  bool // nobody waits any more
}

type line struct {
	text    []byte
	written chan struct{}
}

func (p *patientWriter) Write(text []byte) (int, error) {
	p.mu.Lock()
	if p.size+len(text) > mostUnread {
		p.missing++
		p.mu.Unlock()
		return len(text), nil
	}
	one := line{bytes.Clone(text), make(chan struct{})}
	p.unread, p.size = append(p.unread, one), p.size+len(text)
	if !p.writing {
		p.writing = true
		go p.write()
	}
	behind := p.behind
	p.mu.Unlock()
	if behind {
		return len(text), nil
	}
	late := time.NewTimer(logPatience)
	defer late.Stop()
	select {
	case <-one.written:
	case <-late.C:
		p.mu.Lock()
		p.behind = p.writing
		p.mu.Unlock()
	}
	return len(text), nil
}

// write writes all lines, and then how many are missing.
func (p *patientWriter) write() {
	for {
		p.mu.Lock()
		missing, one := p.missing, line{}
		if len(p.unread) > 0 {
			one, missing, p.unread = p.unread[0], 0, p.unread[1:]
		}
		p.mu.Unlock()
		if one.text == nil && missing > 0 {
			one.text = p.lost(missing)
		}
		_, err := p.w.Write(one.text)
		p.mu.Lock()
		if one.written != nil {
			p.size -= len(one.text)
			close(one.written)
			if err != nil {
				p.missing++
			}
		} else if err == nil {
			p.missing -= missing
		}
		if len(p.unread) == 0 && (p.missing == 0 || one.written == nil) {
			p.unread, p.writing, p.behind = nil, false, false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}
