package lineedit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mattn/go-runewidth"
	"github.com/rivo/uniseg"
)

// enter edits a line with the given keys.
func enter(t *testing.T, e *Editor, keys string) (line, shown string, err error) {
	t.Helper()
	var out strings.Builder
	e.In, e.Out = strings.NewReader(keys), &out
	line, err = e.ReadLine(t.Context(), "> ")
	return line, out.String(), err
}

func newEditor(width int) *Editor {
	return New(nil, io.Discard, func() int { return width })
}

func TestEditing(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"hello":                         "hello",
		"helo\x1b[Dl":                   "hello",
		"ello\x01h":                     "hello",
		"ello\x1b[Hh\x1b[F!":            "hello!",
		"ello\x1bOHh":                   "hello",
		"ello\x1b[1~h":                  "hello",
		"hellox\x7f":                    "hello",
		"xhello\x01\x04":                "hello",
		"xhello\x01\x1b[3~":             "hello",
		"get a/b.txt\x17x":              "get x",
		"get a/b.txt\x1b\x7fx":          "get a/b.x",
		"get a b\x1bb\x1bb\x1bd":        "get  b",
		"get a b\x1b[1;5D\x0b":          "get a ",
		"get a b\x1bb\x1bb\x1bf!":       "get a! b",
		"get a\x15put b":                "put b",
		"one two\x17\x01\x19":           "twoone ",
		"ab\x14":                        "ba",
		"a\x14":                         "a",
		"abc\x02\x02\x14":               "bac",
		"abc\x0b\x01\x0b\x1f":           "abc",
		"日本\x7f語":                       "日語",
		"e\u0301x\x02\x7f":              "x", // an accent goes with its letter
		"a\x1b[200~b\tc\nd\n\x1b[201~e": "ab c de",
		"a\x1b[5~b\x1b[17~c":            "abc", // keys that do nothing
		"\x1b\x1b[Da":                   "a",
		"\xffa":                         "\xffa",
	} {
		if got, _, err := enter(t, newEditor(80), keys+"\r"); got != want || err != nil {
			t.Errorf("%q gives %q, %v, want %q", keys, got, err, want)
		}
	}
}

func TestEndOfInput(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]error{"abc\x03": ErrInterrupted, "\x04": io.EOF, "a\x7f\x04": io.EOF, "abc": io.EOF} {
		if line, _, err := enter(t, newEditor(80), keys); line != "" || !errors.Is(err, want) {
			t.Errorf("%q gives %q, %v, want %v", keys, line, err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	e := newEditor(80)
	r, w := io.Pipe()
	defer w.Close()
	e.In = r
	if _, err := e.ReadLine(ctx, "> "); err != stop {
		t.Errorf("got %v, want the cause of the context", err)
	}
}

// grid shows what a terminal of a width shows that obeys the sequences that the editor uses. It
// fails where a row is longer.
func grid(t *testing.T, text string, width int) (rows []string, row, column int) {
	t.Helper()
	cells := [][]string{nil}
	sequence := regexp.MustCompile(`^\x1b\[(\d*)([ACJH])`)
	for text != "" {
		if m := sequence.FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(m[1])
			switch m[2] {
			case "A":
				row -= max(1, n)
			case "C":
				column += max(1, n)
			case "J":
				cells = cells[:row+1]
				cells[row] = cells[row][:min(column, len(cells[row]))]
			case "H":
				row, column = 0, 0
			}
			if row < 0 {
				t.Fatalf("the cursor goes above the first row")
			}
			text = text[len(m[0]):]
			continue
		}
		cell, _, _, _ := uniseg.FirstGraphemeClusterInString(text, -1)
		if strings.HasPrefix(text, "\r\n") {
			cell = "\r" // they are one cluster
		}
		text = text[len(cell):]
		switch cell {
		case "\r":
			column = 0
		case "\n":
			if row++; row == len(cells) {
				cells = append(cells, nil)
			}
		case "\a":
		case "\x1b":
			t.Fatalf("an unknown sequence: %q", text[:min(len(text), 10)])
		default:
			if column+runewidth.StringWidth(cell) > width {
				t.Fatalf("a row is longer than %d: %q and %q", width, cells[row], cell)
			}
			for len(cells[row]) <= column {
				cells[row] = append(cells[row], " ")
			}
			cells[row][column] = cell
			for i := 1; i < runewidth.StringWidth(cell); i++ {
				cells[row] = append(cells[row][:column+i], "")
			}
			column += runewidth.StringWidth(cell)
		}
	}
	for _, row := range cells {
		rows = append(rows, strings.TrimRight(strings.Join(row, ""), " "))
	}
	return rows, row, column
}

// The screen shows the line whatever is typed, and whatever its width.
func TestScreen(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"hello", "hello world, this is long", "日本語の長い名前です", "12345678", "123456789",
		"1234567日", "hello world\x01x", "hello world, this\x1b[D\x1b[D\x7f\x7f", "hello world, this is\x15", "e\u0301e\u0301e\u0301"} {
		for _, width := range []int{2, 3, 7, 10, 11, 80} {
			e := newEditor(width)
			var out strings.Builder
			e.screen = screen{out: &out, width: e.Width}
			e.keys.in = strings.NewReader(keys)
			e.prompt = "> "
			for {
				e.screen.draw(e.prompt, e.buffer.cells, e.buffer.at)
				rows, row, column := grid(t, out.String(), width)
				if got, want := strings.Join(rows, ""), strings.TrimRight("> "+e.buffer.String(), " "); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
					t.Fatalf("with %d columns it shows %q, want %q", width, got, want)
				}
				if _, cursor, _ := layout(e.screen.cells, e.screen.at, width); cursor != (place{row, column}) {
					t.Fatalf("with %d columns the cursor is at %d, %d, want %v", width, row, column, cursor)
				}
				k, _, err := e.keys.next(t.Context())
				if err != nil {
					break
				}
				if _, err := e.press(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// What is on a terminal of another's making is shown and not obeyed.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	e := newEditor(80)
	e.Complete = func(line string, at int) (Completion, bool) {
		return Completion{Text: "evil\x1b]0;title\a"}, false
	}
	line, shown, _ := enter(t, e, "\t\r")
	if line != "evil\x1b]0;title\a" || strings.Contains(shown, "\x1b]") {
		t.Errorf("the line is %q, and shown was %q", line, shown)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state", "history")
	h, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	e := newEditor(80)
	e.History = h
	for _, line := range []string{"first one", "second", "second", "  secret", "", "third"} {
		enter(t, e, line+"\r")
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file: %v, %v", info, err)
	}
	if e.History, err = Open(file); err != nil {
		t.Fatal(err)
	}
	if want := []string{"first one", "second", "third"}; !slices.Equal(e.History.lines, want) {
		t.Errorf("kept are %q, want %q", e.History.lines, want)
	}
	for keys, want := range map[string]string{
		"\x1b[A":                     "third",
		"\x10\x10":                   "second",
		"\x10\x10\x10\x10\x10":       "first one",
		"new\x10\x10\x0e\x0e":        "new", // what was typed comes back
		"\x10\x10!\x10\x0e":          "second!",
		"\x12irst":                   "first one",
		"\x12ir\x12\x12!":            "first one", // no other
		"\x12s\x12":                  "first one",
		"\x12s\x05!":                 "second!",
		"typed\x12sec\x07":           "typed",
		"\x12sec\x7f\x7f\x7fthi\x05": "third",
	} {
		h, _ := Open(file)
		h.file = ""
		e.History = h
		if got, _, err := enter(t, e, keys+"\r"); got != want || err != nil {
			t.Errorf("%q gives %q, %v, want %q", keys, got, err, want)
		}
	}
	var long strings.Builder
	for i := range 3 * maxLines {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	if err := os.WriteFile(file, []byte(long.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if h, err = Open(file); err != nil || len(h.lines) != maxLines || h.lines[maxLines-1] != "line 2999" {
		t.Errorf("%d lines are kept, %v", len(h.lines), err)
	}
	text, _ := os.ReadFile(file)
	if info, _ := os.Stat(file); strings.Count(string(text), "\n") != maxLines || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %d lines, mode %v", strings.Count(string(text), "\n"), info.Mode())
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	e := newEditor(30)
	e.Complete = func(line string, at int) (c Completion, pending bool) {
		c.Start = strings.LastIndexByte(line[:at], ' ') + 1
		for _, name := range []string{"alpha", "alphabet", "beta"} {
			if strings.HasPrefix(name, line[c.Start:at]) {
				c.List = append(c.List, name)
			}
		}
		switch len(c.List) {
		case 1:
			c.Text = c.List[0] + " "
		case 2:
			c.Text = "alpha"
		}
		return c, false
	}
	for keys, want := range map[string]string{
		"get b\tx":          "get beta x",
		"get a\t":           "get alpha",
		"get a\t\t\tb\t":    "get alphabet ",
		"get c\tx":          "get cx",
		"get  x\x02\x02b\t": "get beta  x",
	} {
		got, shown, err := enter(t, e, keys+"\r")
		if got != want || err != nil {
			t.Errorf("%q gives %q, %v, want %q", keys, got, err, want)
		}
		if listed := strings.Contains(shown, "alpha     alphabet\r\n"); listed != (strings.Count(keys, "\t\t\t") > 0) {
			t.Errorf("%q shows %q", keys, shown)
		}
	}
}

// shownFunc is a terminal that tells what is shown.
type shownFunc func(text string)

func (f shownFunc) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

// A completion that is not there yet comes when it is, unless something was typed meanwhile; and
// typing goes on.
func TestPendingCompletion(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"": "get beta ", "x": "get bx"} {
		e := newEditor(80)
		in, keys := io.Pipe()
		e.In = in
		seen := make(chan struct{})
		once := sync.OnceFunc(func() { close(seen) })
		e.Out = shownFunc(func(text string) {
			if typed != "" && strings.HasSuffix(text, "get b"+typed) {
				once()
			}
		})
		var mu sync.Mutex
		ready, asked := false, make(chan struct{}, 10)
		e.Complete = func(line string, at int) (Completion, bool) {
			mu.Lock()
			defer mu.Unlock()
			asked <- struct{}{}
			return Completion{Start: 4, Text: "beta "}, !ready
		}
		go func() {
			defer keys.Close()
			io.WriteString(keys, "get b\t")
			<-asked
			if typed != "" {
				io.WriteString(keys, typed)
				<-seen
			}
			mu.Lock()
			ready = true
			mu.Unlock()
			e.Wake()
			if typed == "" {
				<-asked
			}
			io.WriteString(keys, "\r")
		}()
		if got, err := e.ReadLine(t.Context(), "> "); got != want || err != nil {
			t.Errorf("with %q it is %q, %v, want %q", typed, got, err, want)
		}
	}
}

// Whatever comes from a terminal, decode takes it or waits for more, and the editor draws no row
// that is too long.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("a\x1b[200~b\x1b[201~\x1b[A\x12x\x1b\x1b[C"), 10)
	f.Add([]byte("日本\xff\xc3\x1b[1;5D\x17\x19\x1f"), 3)
	f.Fuzz(func(t *testing.T, keys []byte, width int) {
		width = max(2, width%200)
		e := newEditor(width)
		var out strings.Builder
		e.In, e.Out = strings.NewReader(string(keys)), &out
		e.History.push("an older line")
		e.ReadLine(t.Context(), "> ")
		if !strings.ContainsAny(string(keys), "\x0c") {
			grid(t, out.String(), max(width, 16))
		}
	})
}
