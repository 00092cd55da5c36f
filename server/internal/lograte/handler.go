package lograte

import (
	"context"
	"fmt"
	"log/slog"
	"unicode/utf8"
)

// MaxString is the maximum length of a string in a log line, in bytes. Names, paths and messages
// come from clients, which may send hundreds of kilobytes.
const MaxString = 128

// Cut returns a logger that cuts every string at MaxString. If log is nil it logs nothing.
func Cut(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	if _, cut := log.Handler().(*handler); cut {
		return log
	}
	return slog.New(&handler{Handler: log.Handler()})
}

// ByLine returns a logger that cuts strings, and limits the number of lines.
func ByLine(log *slog.Logger, limit *Limit) *slog.Logger {
	return slog.New(&handler{Handler: log.Handler(), limit: limit,
		cost: func(slog.Record) float64 { return 1 }})
}

// ByByte returns a logger that cuts strings, and limits the total length of lines.
func ByByte(log *slog.Logger, limit *Limit) *slog.Logger {
	return slog.New(&handler{Handler: log.Handler(), limit: limit, cost: size})
}

// handler cuts strings, and omits lines beyond a limit if it has one.
type handler struct {
	slog.Handler
	limit *Limit
	cost  func(slog.Record) float64
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	cut := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		cut.AddAttrs(cutAttr(a))
		return true
	})
	if h.limit != nil {
		ok, omitted := h.limit.TakeN(h.cost(cut))
		if !ok {
			return nil
		}
		if omitted > 0 {
			cut.AddAttrs(slog.Int("omitted", omitted))
		}
	}
	return h.Handler.Handle(ctx, cut)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.Handler = h.Handler.WithAttrs(cutAttrs(attrs))
	return &with
}

func (h *handler) WithGroup(name string) slog.Handler {
	with := *h
	with.Handler = h.Handler.WithGroup(name)
	return &with
}

func cutAttrs(attrs []slog.Attr) []slog.Attr {
	cut := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		cut[i] = cutAttr(a)
	}
	return cut
}

func cutAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(cutString(v.String()))
	case slog.KindGroup:
		v = slog.GroupValue(cutAttrs(v.Group())...)
	case slog.KindAny:
		// an error or another type: a handler would write roughly this
		text, ok := v.Any().(string)
		if !ok {
			text = fmt.Sprint(v.Any())
		}
		if len(text) > MaxString {
			v = slog.StringValue(cutString(text))
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// cutString cuts between UTF-8 characters if possible.
func cutString(s string) string {
	const more = "…"
	if len(s) <= MaxString {
		return s
	}
	end := MaxString - len(more)
	for i := end; i > end-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			end = i
			break
		}
	}
	return s[:end] + more
}

// size returns the rough length of a line.
func size(r slog.Record) float64 {
	const around = 100 // time, level, message, and the logger's own attributes
	n := around + len(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		n += len(a.Key) + len(a.Value.String()) + 2
		return true
	})
	return float64(n)
}
