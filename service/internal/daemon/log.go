package daemon

import (
	"context"
	"log/slog"
	"sync"
)

// A logHandler updates the metrics. Health checks, which connect every few seconds without logging
// in, are logged for debugging only.
type logHandler struct {
	slog.Handler
	metrics *metrics
	checks  *sync.Map // see service
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
		if a.Key == "remote" {
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
