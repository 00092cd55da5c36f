package verb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/usftp/usftp"
)

// ConcatenateOptions are the options of cat.
type ConcatenateOptions struct {
	Number bool // -n: number all lines
}

// Concatenate implements cat. While it prints one file, it reads the beginnings of the next ones.
func Concatenate(ctx context.Context, env *Env, o ConcatenateOptions, names []string) error {
	j := env.begin(ctx)
	lines := &lineWriter{job: j, numbered: o.Number}
	inTurn(j, names, j.openAhead, func(name string, f *beginning) {
		defer f.close()
		if f.err != nil || j.over() {
			j.fail("read", name, whyNotOpened(j, name, f.err))
			return
		}
		lines.name = name
		_, err := io.Copy(lines, f.content)
		lines.end()
		readFailed(j, name, err)
	})
	return j.end()
}

// readFailed reports why a file could not be read completely. A failed write ends the verb.
func readFailed(j *job, name string, err error) {
	if err == nil || !outputLost(j) {
		j.fail("read", name, err)
	}
}

// outputLost reports whether a write has failed, which ends the verb.
func outputLost(j *job) bool {
	if _, lost := j.out.Write(nil); lost != nil && j.err == nil {
		j.err = lost
		return true
	}
	return false
}

// A beginning is an open file whose first bytes have been read.
type beginning struct {
	opened
	content io.Reader
}

// readAhead is how many bytes are read of each file that is opened ahead.
const readAhead = 64 << 10

// openAhead opens a file and reads its beginning.
func (j *job) openAhead(name string) *beginning {
	f := new(beginning)
	if f.file, f.err = j.client.OpenRead(j.at(name)); f.err != nil {
		return f
	}
	head := make([]byte, readAhead)
	n, err := f.file.ReadAt(head, 0)
	f.content = bytes.NewReader(head[:n])
	switch {
	case err == io.EOF:
	case err != nil:
		f.err = err
	default:
		_, f.err = f.file.Seek(int64(n), io.SeekStart)
		f.content = io.MultiReader(f.content, steadyFile{f.file})
	}
	return f
}

// A steadyFile is read to its end although the host gives its handle to another file meanwhile: it
// is opened again. The data read before that error is right.
type steadyFile struct{ *usftp.File }

func (f steadyFile) Read(p []byte) (n int, err error) {
	if n, err = f.File.Read(p); f.reopened(err) {
		return f.File.Read(p)
	}
	return n, err
}

// WriteTo implements io.WriterTo.
func (f steadyFile) WriteTo(w io.Writer) (n int64, err error) {
	if n, err = f.File.WriteTo(w); f.reopened(err) {
		var rest int64
		rest, err = f.File.WriteTo(w)
		n += rest
	}
	return n, err
}

// reopened opens the file again at its offset if that may cure err.
func (f steadyFile) reopened(err error) bool {
	return errors.Is(err, usftp.ErrSharedHandle) && f.Close() == nil && f.OpenRead() == nil
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

// lineWriter prints the text of files: as it is, or line by line if it is numbered or JSON.
type lineWriter struct {
	*job
	name     string
	numbered bool
	number   int
	inLine   bool   // the last line, possibly of the previous file, has not ended
	rest     []byte // start of the last line, for JSON
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if !w.numbered && !w.JSON {
		for piece := range slices.Chunk(p, outputBuffer) {
			if w.over() { // the rest of p would take a slow terminal long
				break
			}
			w.out.Write(piece)
		}
		return w.written(len(p))
	}
	for line := range bytes.Lines(p) {
		if w.over() {
			break
		}
		if !w.JSON {
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
	return w.written(len(p))
}

// written returns the results of Write.
func (w *lineWriter) written(n int) (int, error) {
	_, err := w.out.Write(nil)
	return n, cmp.Or(err, w.stopped())
}

// end prints the last line of a file as JSON if it lacks a line break.
func (w *lineWriter) end() {
	if len(w.rest) > 0 {
		w.emit()
	}
}

func (w *lineWriter) emit() {
	line := bytes.TrimSuffix(w.rest, []byte("\n"))
	object := textLine{w.header("line"), w.name, strings.ToValidUTF8(string(line), "\ufffd"), nil}
	if !utf8.Valid(line) {
		object.Base64 = line
	}
	w.print(object)
	w.rest = w.rest[:0]
}
