package site

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// reader is whoever reads the log: it hangs while its turn is taken.
type reader struct {
	turn  chan struct{}
	got   bytes.Buffer
	fails error
}

func newReader() *reader { return &reader{turn: make(chan struct{}, 1)} }

func (r *reader) hang() { r.turn <- struct{}{} }
func (r *reader) goOn() { <-r.turn }

func (r *reader) Write(p []byte) (int, error) {
	r.hang()
	defer r.goOn()
	if r.fails != nil {
		return 0, r.fails
	}
	return r.got.Write(p)
}

func textLog(w io.Writer) *slog.Logger {
	return slog.New(patiently(w, func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) }))
}

// TestLogReaderHangs: sessions go on all the same, what has room is kept, and a line says how much
// is missing.
func TestLogReaderHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const count = 5000
		r := newReader()
		log := textLog(r)
		log.Info("first")
		if !strings.Contains(r.got.String(), "msg=first\n") {
			t.Errorf("a line is not there once it is logged: %q", r.got.String())
		}
		r.hang()
		began := time.Now()
		for i := range count {
			log.Info(strings.Repeat("x", 1000), "n", i)
		}
		if took := time.Since(began); took > logPatience {
			t.Errorf("%d lines took %v", count, took)
		}
		r.goOn()
		synctest.Wait()
		log.Info("last")
		lines := strings.Split(strings.TrimSpace(r.got.String()), "\n")
		kept := len(lines) - 3
		said := slog.Int("lines", count-kept).String()
		if kept < mostUnread/1200 || kept >= count ||
			!strings.HasSuffix(lines[kept+1], `msg="log lines were lost" `+said) ||
			!strings.HasSuffix(lines[kept+2], "msg=last") {
			t.Errorf("%d of %d lines are there, then %q", kept, count, lines[max(0, len(lines)-2):])
		}
		if !strings.HasSuffix(lines[kept], slog.Int("n", kept-1).String()) {
			t.Errorf("the last line that was kept is %q", lines[kept])
		}
		r.hang()
		began = time.Now()
		log.Info("once more")
		if took := time.Since(began); took != logPatience {
			t.Errorf("a line waited %v for a reader that had caught up", took)
		}
		r.goOn()
	})
}

// TestLogDiskIsFull: once there is room, a line says how many could not be written.
func TestLogDiskIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		r.fails = syscall.ENOSPC
		log := textLog(r)
		for range 10 {
			log.Info("lost")
			synctest.Wait()
		}
		r.fails = nil
		log.Info("there")
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(r.got.String()), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "msg=there") ||
			!strings.HasSuffix(lines[1], `msg="log lines were lost" lines=10`) {
			t.Errorf("the log has %q", lines)
		}
	})
}
