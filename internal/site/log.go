package site

import (
	"bytes"
	"io"
	"log/slog"

	"github.com/usftp/usftp/internal/ui"
)

// NewHandler returns a handler that logs to the console as text or JSON.
func NewHandler(console *ui.Console, format string, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.NewJSONHandler(escapingWriter{console}, options)
	}
	return slog.NewTextHandler(console, options)
}

// escapingWriter escapes in JSON the characters that the text format escapes.
type escapingWriter struct{ w io.Writer }

func (e escapingWriter) Write(p []byte) (int, error) {
	line := bytes.TrimSuffix(p, []byte("\n"))
	_, err := e.w.Write(append(ui.EscapeJSON(line), '\n'))
	return len(p), err
}
