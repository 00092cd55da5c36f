package verb

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/usftp/usftp"
)

// ConcatenateOptions are the options of cat.
type ConcatenateOptions struct {
	Number bool // -n: number all lines
}

// Concatenate is cat. While one file is printed, the beginnings of the next ones are read.
func Concatenate(ctx context.Context, env *Env, o ConcatenateOptions, names []string) error {
	j := env.begin(ctx, "cat")
	lines := &lineWriter{job: j, numbered: o.Number}
	for f := range j.readAhead(names, catAhead) {
		if f.err != nil {
			j.fail("read", f.name, f.err)
			continue
		}
		var w io.Writer = j.out
		if lines.name = f.name; o.Number || j.JSON {
			w = lines
		}
		_, err := f.WriteTo(w)
		lines.end()
		j.readFailed(f.name, err)
	}
	return j.end()
}

// readFailed reports why a file could not be read completely. A failed write ends the verb.
func (j *job) readFailed(name string, err error) {
	if err == nil || !j.outputLost() {
		j.fail("read", name, err)
	}
}

// outputLost reports whether a write has failed, which ends the verb.
func (j *job) outputLost() bool {
	if _, lost := j.out.Write(nil); lost != nil && j.err == nil {
		j.err = lost
		return true
	}
	return false
}

// A beginning is an open file whose first bytes have been read.
type beginning struct {
	name string
	file *usftp.File
	head []byte
	all  bool // head is the whole file
	err  error
}

const (
	// mostOpened is how many files are opened ahead, and catAhead how many bytes of each are read.
	mostOpened = 16
	catAhead   = 256 << 10
	headAhead  = 32 << 10
)

// readAhead opens files and yields them in order, closing each after use.
func (j *job) readAhead(names []string, size int) iter.Seq[*beginning] {
	return func(yield func(*beginning) bool) {
		opened := make([]chan *beginning, len(names))
		start := func(i int) {
			opened[i] = make(chan *beginning, 1)
			go func() { opened[i] <- j.open(names[i], size) }()
		}
		for i := range min(mostOpened, len(names)) {
			start(i)
		}
		for i := range names {
			f := <-opened[i]
			opened[i] = nil
			if i+mostOpened < len(names) {
				start(i + mostOpened)
			}
			more := !j.over() && yield(f)
			if f.file != nil {
				f.file.Close()
			}
			if !more {
				for _, rest := range opened[i+1 : min(i+1+mostOpened, len(names))] {
					if f := <-rest; f.file != nil {
						f.file.Close()
					}
				}
				return
			}
		}
	}
}

// open opens a file and reads its beginning.
func (j *job) open(name string, size int) *beginning {
	f := &beginning{name: name}
	if f.file, f.err = j.client.Open(j.at(name)); f.err != nil {
		f.err = j.whyNotOpened(name, f.err)
		return f
	}
	head := make([]byte, size)
	n, err := f.file.ReadAt(head, 0)
	f.head = head[:n]
	switch {
	case err == io.EOF:
		f.all = true
	case err != nil:
		f.err = j.whyNotOpened(name, err)
	default:
		_, f.err = f.file.Seek(int64(n), io.SeekStart)
	}
	return f
}

// whyNotOpened investigates a refusal without a reason: directories cannot be read.
func (j *job) whyNotOpened(name string, err error) error {
	if errors.Is(err, usftp.ErrSSHFxFailure) {
		if info, statErr := j.client.Stat(j.at(name)); statErr == nil && info.IsDir() {
			return errIsDirectory
		}
	}
	return err
}

// WriteTo writes the file.
func (f *beginning) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(f.head)
	if err != nil || f.all {
		return int64(n), err
	}
	m, err := f.file.WriteTo(w)
	return int64(n) + m, err
}

// Read reads the file from its beginning.
func (f *beginning) Read(p []byte) (int, error) {
	if len(f.head) > 0 {
		n := copy(p, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	if f.all {
		return 0, io.EOF
	}
	return f.file.Read(p)
}

// A textLine is one line of a file for --json.
type textLine struct {
	header
	Path   string `json:"path"`
	Text   string `json:"text"`
	Base64 []byte `json:"base64,omitempty"` // the line, if it is not UTF-8
}

// mostLine is the length at which a line is cut for --json.
const mostLine = 1 << 20

// lineWriter prints lines one by one: numbered, or as JSON.
type lineWriter struct {
	*job
	name     string
	numbered bool
	number   int
	inLine   bool   // the last line, possibly of the previous file, has not ended
	rest     []byte // of the last line, as JSON
}

func (w *lineWriter) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if w.numbered && !w.JSON {
			if !w.inLine {
				w.number++
				fmt.Fprintf(w.out, "%6d\t", w.number)
			}
			w.out.Write(line)
			w.inLine = line[len(line)-1] != '\n'
			continue
		}
		w.rest = append(w.rest, line...)
		if line[len(line)-1] == '\n' || len(w.rest) > mostLine {
			w.emit()
		}
	}
	_, err := w.out.Write(nil)
	if err == nil {
		err = w.err
	}
	return len(p), err
}

func (w *lineWriter) end() {
	if len(w.rest) > 0 {
		w.emit()
	}
}

func (w *lineWriter) emit() {
	line := bytes.TrimSuffix(w.rest, []byte("\n"))
	object := textLine{header{1, "line", w.Host}, w.name, strings.ToValidUTF8(string(line),
		"\ufffd"), nil}
	if !utf8.Valid(line) {
		object.Base64 = line
	}
	w.print(object)
	w.rest = w.rest[:0]
}

// HeadOptions are the options of head and, in TailOptions, of tail.
type HeadOptions struct {
	Count   int64 // lines, or bytes
	Bytes   bool  // -c
	Other   bool  // head: all but the last Count; tail: from number Count on ("+5")
	Quiet   bool  // -q: no headings
	Verbose bool  // headings even for a single file
}

// headings prints a heading before each file.
type headings struct {
	*job
	on    bool
	count int
	last  string
}

func newHeadings(j *job, o HeadOptions, names []string) *headings {
	return &headings{job: j, on: !j.JSON && !o.Quiet && (len(names) > 1 || o.Verbose)}
}

// more prints the heading of a file that has grown, unless the last output was that file's.
func (h *headings) more(name string) {
	if h.count == 0 || h.last != name {
		h.print(name)
	}
}

// print prints the heading of a file.
func (h *headings) print(name string) {
	if !h.on {
		return
	}
	if h.count > 0 {
		h.line()
	}
	h.line("==> ", h.shown(h.Prefix+name), " <==")
	h.count++
	h.last = name
}

// writerFor returns where a file's contents go.
func (j *job) writerFor(name string) (w io.Writer, end func()) {
	if !j.JSON {
		return j.out, func() {}
	}
	lines := &lineWriter{job: j, name: name}
	return lines, lines.end
}

// Head is head.
func Head(ctx context.Context, env *Env, o HeadOptions, names []string) error {
	j := env.begin(ctx, "head")
	h := newHeadings(j, o, names)
	for f := range j.readAhead(names, headAhead) {
		if f.err != nil {
			if f.err == errIsDirectory { // which could be opened, to the tools
				h.print(f.name)
			}
			j.fail("read", f.name, f.err)
			continue
		}
		h.print(f.name)
		w, end := j.writerFor(f.name)
		err := head(w, f, o)
		end()
		j.readFailed(f.name, err)
	}
	return j.end()
}

// head copies the first lines or bytes.
func head(w io.Writer, r io.Reader, o HeadOptions) error {
	switch {
	case o.Other && o.Bytes:
		return copyBut(w, r, o.Count)
	case o.Other:
		return copyButLines(w, r, o.Count)
	case o.Bytes:
		_, err := io.CopyN(w, r, o.Count)
		return noEOF(err)
	}
	lines := bufio.NewReaderSize(r, 64<<10)
	for left := o.Count; left > 0; {
		line, err := lines.ReadSlice('\n')
		if _, writeErr := w.Write(line); writeErr != nil {
			return writeErr
		}
		switch err {
		case nil:
			left--
		case bufio.ErrBufferFull:
		default:
			return noEOF(err)
		}
	}
	return nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// copyBut copies all but the last n bytes, for which it needs that much memory.
func copyBut(w io.Writer, r io.Reader, n int64) error {
	var held []byte
	buf := make([]byte, 64<<10)
	for {
		m, err := r.Read(buf)
		held = append(held, buf[:m]...)
		if more := int64(len(held)) - n; more > 0 {
			if _, err := w.Write(held[:more]); err != nil {
				return err
			}
			held = append(held[:0], held[more:]...)
		}
		if err != nil {
			return noEOF(err)
		}
	}
}

// copyButLines copies all but the last n lines, which it keeps in memory.
func copyButLines(w io.Writer, r io.Reader, n int64) error {
	var held [][]byte
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			held = append(held, line)
		}
		if int64(len(held)) > n {
			if _, err := w.Write(held[0]); err != nil {
				return err
			}
			held = held[1:]
		}
		if err != nil {
			return noEOF(err)
		}
	}
}
