package lograte_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server/internal/lograte"
)

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lograte.Limit
		take := func(tries, want int) (omitted int) {
			t.Helper()
			got := 0
			for range tries {
				if ok, n := l.Take(); ok {
					got++
					omitted += n
				}
			}
			if got != want {
				t.Errorf("%d lines of %d, want %d", got, tries, want)
			}
			return omitted
		}
		burst := int(lograte.Lines.Burst)
		take(burst, burst)
		take(7, 0)
		if n := l.Omitted(); n != 7 {
			t.Errorf("%d were omitted", n)
		}
		time.Sleep(3500 * time.Millisecond)
		if n := take(5, 3); n != 7 {
			t.Errorf("the next line tells of %d", n)
		}
		if n := l.Omitted(); n != 2 {
			t.Errorf("%d were omitted since", n)
		}
		time.Sleep(time.Hour)
		take(2*burst, burst)
	})
}

// TestTable: each client has its own limit, and there are never more limits than allowed.
func TestTable(t *testing.T) {
	table := lograte.NewTable[int](lograte.Rate{Burst: 1}, 100)
	for client := range 100 {
		if ok, _ := table.Of(client).Take(); !ok {
			t.Errorf("client %d may not write", client)
		}
	}
	for client := range 100 {
		if ok, _ := table.Of(client).Take(); ok {
			t.Errorf("client %d may write twice", client)
		}
	}
	table.Of(100)
	known := 0
	for client := range 100 {
		if ok, _ := table.Of(client).Take(); !ok {
			known++
		}
	}
	if known == 100 {
		t.Error("101 clients are remembered")
	}
}

type long struct{}

func (long) String() string { return strings.Repeat("s", 1000) }

func (long) LogValue() slog.Value { return slog.GroupValue(slog.String("in", long{}.String())) }

type text string

// TestCut: no string in a line is longer than 128 bytes, in whatever form it comes.
func TestCut(t *testing.T) {
	x := strings.Repeat("x", 1000)
	for name, attr := range map[string]any{
		"string": x, "error": errors.New(x), "wrapped error": fmt.Errorf("%w", errors.New(x)),
		"stringer": fmt.Stringer(long{}), "valuer": slog.LogValuer(long{}), "kind": text(x),
		"strings": []string{x, x}, "bytes": []byte(x), "struct": struct{ S string }{x},
		"group": slog.GroupValue(slog.String("a", x), slog.Group("b", "c", x)),
		"wide":  strings.Repeat("ä", 500), "not UTF-8": strings.Repeat("\x80", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			log := lograte.Cut(slog.New(slog.NewTextHandler(&b, nil)))
			log.Info("m")
			empty := b.Len()
			for _, with := range []bool{false, true} {
				b.Reset()
				if with {
					log.With("k", attr).Info("m")
				} else {
					log.Info("m", "k", attr)
				}
				// At most two strings, and four bytes for each byte that is escaped.
				if n := b.Len() - empty; n < 100 || n > 4*lograte.MaxString+20 {
					t.Errorf("%d bytes: %.300s", n, b.String())
				}
				if name == "wide" && strings.Contains(b.String(), `\x`) {
					t.Errorf("cut within a character: %s", b.String())
				}
			}
		})
	}
	var b bytes.Buffer
	log := lograte.Cut(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
	lograte.Cut(log).Info("m", "short", strings.Repeat("y", lograte.MaxString), "n", 5, "error",
		errors.New("e"))
	if want := "level=INFO msg=m short=" + strings.Repeat("y", 128) +
		" n=5 error=e\n"; b.String() !=
		want {
		t.Errorf("got %s want %s", b.String(), want)
	}
	lograte.Cut(nil).Info("nothing")
}

// TestByByteAndByLine: no more than the limit is written, and the next line tells of the rest.
func TestByByteAndByLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		base := slog.New(slog.NewTextHandler(&b, nil))
		log := lograte.ByByte(base, lograte.New(lograte.Rate{Burst: 10_000, PerSecond: 100}))
		for range 1000 {
			log.Info("m", "path", strings.Repeat("p", 1000))
		}
		lines := strings.Count(b.String(), "\n")
		if b.Len() > 10_000 || b.Len() < 5_000 {
			t.Errorf("%d bytes in %d lines", b.Len(), lines)
		}
		time.Sleep(time.Minute)
		b.Reset()
		log.Info("m")
		if !strings.Contains(b.String(), fmt.Sprintf("omitted=%d", 1000-lines)) {
			t.Errorf("the next line does not tell: %s", b.String())
		}

		b.Reset()
		log = lograte.ByLine(lograte.ByLine(base, lograte.New(lograte.Rate{Burst: 5})),
			lograte.New(lograte.Rate{Burst: 10}))
		for range 20 {
			log.Info("m")
		}
		if lines := strings.Count(b.String(), "\n"); lines != 5 {
			t.Errorf("%d lines", lines)
		}
	})
}
