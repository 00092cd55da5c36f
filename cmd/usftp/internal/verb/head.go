package verb

import (
	"bufio"
	"context"
	"io"
)

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
	return &headings{job: j, on: !j.JSON && !o.Quiet && (len(names) > 1 || o.Verbose || j.Prefix != "")}
}

// more prints the heading of a file that has grown, unless the last output came from that file.
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

// Head implements head.
func Head(ctx context.Context, env *Env, o HeadOptions, names []string) error {
	j := env.begin(ctx)
	h := newHeadings(j, o, names)
	lines := &lineWriter{job: j}
	inTurn(j, names, j.openAhead, func(name string, f *beginning) {
		defer f.close()
		if f.err != nil || j.over() {
			err := whyNotOpened(j, name, f.err)
			if err == errIsDirectory { // the tools could open it
				h.print(name)
			}
			j.fail("read", name, err)
			return
		}
		h.print(name)
		lines.name = name
		err := head(lines, f.content, o)
		lines.end()
		readFailed(j, name, err)
	})
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

// copyBut copies all but the last n bytes, which it keeps in memory.
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
