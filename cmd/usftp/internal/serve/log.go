package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"

	"github.com/usftp/usftp/cmd/usftp/internal/ui"
)

// newLog returns a logger to standard error. The metrics count the same records, so the two never
// disagree.
func (s *site) newLog(format string) *slog.Logger {
	return slog.New(&logHandler{Handler: formatHandler(s.Console, format, &s.level),
		metrics: s.metrics, checks: &s.checks})
}

func formatHandler(console *ui.Console, format string, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.NewJSONHandler(escapingWriter{console}, options)
	}
	return slog.NewTextHandler(console, options)
}

// escapingWriter escapes in JSON what the text format escapes.
type escapingWriter struct{ w io.Writer }

func (e escapingWriter) Write(p []byte) (int, error) {
	line := bytes.TrimSuffix(p, []byte("\n"))
	_, err := e.w.Write(append(ui.EscapeJSON(line), '\n'))
	return len(p), err
}

// A logHandler adds a transfer's speed to its line, and updates the metrics. Health checks, which
// connect every few seconds without logging in, are logged for debugging only.
type logHandler struct {
	slog.Handler
	metrics *metrics
	checks  *sync.Map // see site; may be nil
	check   bool      // the records belong to a health check
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.metrics != nil && level >= slog.LevelInfo || h.Handler.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	e := eventOf(r)
	if h.check && e.message == "login failed" {
		r.Level = slog.LevelDebug
	} else {
		h.metrics.count(e)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	if bytes := e.read + e.written; bytes > 0 && e.seconds > 0 {
		r = r.Clone()
		r.Add("bytes_per_second", int64(float64(bytes)/e.seconds))
	}
	return h.Handler.Handle(ctx, r)
}

// Omit counts a line that exceeds the limit and is not written.
func (h *logHandler) Omit(_ context.Context, r slog.Record) {
	if e := eventOf(r); !h.check || e.message != "login failed" {
		h.metrics.count(e)
	}
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key == "remote" && h.checks != nil {
			_, with.check = h.checks.Load(a.Value.String())
		}
	}
	return &with
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	with := *h
	with.Handler = h.Handler.WithGroup(name)
	return &with
}

// A logEvent is what is counted of a record of package server or sshd.
type logEvent struct {
	message       string
	read, written int64
	seconds       float64
	scp           bool
	request       string
}

func eventOf(r slog.Record) logEvent {
	e := logEvent{message: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "read":
			e.read = number(a.Value)
		case "written":
			e.written = number(a.Value)
		case "seconds":
			if a.Value.Kind() == slog.KindFloat64 {
				e.seconds = a.Value.Float64()
			}
		case "request":
			e.request = a.Value.String()
		case "protocol":
			e.scp = a.Value.String() == "scp"
		}
		return true
	})
	return e
}

func number(v slog.Value) int64 {
	switch v.Kind() {
	case slog.KindInt64:
		return v.Int64()
	case slog.KindUint64:
		return int64(v.Uint64())
	}
	return 0
}
