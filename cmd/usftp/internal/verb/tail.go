package verb

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// TailOptions are the options of tail.
type TailOptions struct {
	HeadOptions
	Follow   bool          // -f: print the data added as the file grows
	Retry    bool          // -F: follow the name, even if the file is rotated or missing
	Interval time.Duration // -s: between checks of the files; 0 means a second
}

// Tail implements tail. The protocol cannot wait for changes: with Follow, it requests the sizes of
// all files at every interval, in one round trip.
func Tail(ctx context.Context, env *Env, o TailOptions, names []string) error {
	j := env.begin(ctx)
	if o.Count == 0 && !o.Other && !o.Follow && !o.Retry {
		return j.end() // like GNU's tail, which does not even open the file
	}
	t := &tail{job: j, o: o, headings: newHeadings(j, o.HeadOptions, names),
		lines: &lineWriter{job: j}}
	inTurn(j, names, t.find, t.first)
	if o.Follow || o.Retry {
		t.follow()
	}
	for _, f := range t.files {
		if f.file != nil {
			f.file.Close()
		}
	}
	return j.end()
}

type tail struct {
	*job
	o        TailOptions
	headings *headings
	lines    *lineWriter
	files    []*followed
	follows  atomic.Bool // there are files; find may run on other goroutines
}

// A followed file is a file that tail keeps watching.
type followed struct {
	name   string
	file   *usftp.File // closed or nil while the name is missing
	offset int64
	gone   bool
	why    string // why it is gone or cannot be read, as reported; "" if it can be read
}

// An ending is the end of a file, found but not printed yet.
type ending struct {
	opened
	info  fs.FileInfo
	start int64  // where it begins
	data  []byte // nil if it is to be read
}

// find opens a file and finds its end.
func (t *tail) find(name string) *ending {
	e := new(ending)
	if t.follows.Load() && oneHandle(t.job) {
		e.err = usftp.ErrOneHandle // opening another file would wait for the first one
		return e
	}
	if e.file, e.err = t.client.OpenRead(t.at(name)); e.err == nil {
		e.info, e.err = e.file.Stat()
	}
	if e.err != nil {
		return e
	}
	switch size := e.info.Size(); {
	case e.info.IsDir():
		e.err = errIsDirectory
	case t.o.Other:
		e.start, e.err = t.startFrom(e.file)
	case e.isUnsized():
	case t.o.Bytes:
		e.start = max(0, size-t.o.Count)
	default:
		e.start, e.data, e.err = startOfLast(e.file, size, t.o.Count)
	}
	return e
}

// isUnsized reports whether the size means nothing: a file that reports size 0 may not be empty, as
// in /proc.
func (e *ending) isUnsized() bool { return e.info.Size() == 0 || !e.info.Mode().IsRegular() }

// first prints the end of a file.
func (t *tail) first(name string, e *ending) {
	if t.over() {
		e.close()
		return
	}
	f := &followed{name: name, file: e.file}
	err := e.err
	if err == nil {
		err = t.printEnd(f, e)
	}
	if err != nil {
		if err = whyNotOpened(t.job, name, err); err == errIsDirectory {
			t.headings.print(name)
		}
		readFailed(t.job, name, err)
		if e.close(); !t.o.Retry || t.over() {
			return
		}
		f.file, f.gone, f.why = nil, true, reasonOf(err)
	}
	if !t.o.Follow && !t.o.Retry {
		e.close()
		return
	}
	t.files = append(t.files, f)
	t.follows.Store(true)
}

// printEnd prints the end of a file, and records where it ends.
func (t *tail) printEnd(f *followed, e *ending) (err error) {
	t.headings.print(f.name)
	f.offset = e.start
	if e.data == nil && (t.o.Other || !e.isUnsized()) {
		return t.copyFrom(f)
	}
	t.lines.name = f.name
	defer t.lines.end()
	if e.data == nil {
		f.offset, err = lastOf(t.lines, f.file, t.o.HeadOptions)
		return err
	}
	f.offset += int64(len(e.data))
	_, err = t.lines.Write(e.data)
	return err
}

// copyFrom prints a file from the offset to its end.
func (t *tail) copyFrom(f *followed) error {
	if _, err := f.file.Seek(f.offset, io.SeekStart); err != nil {
		return err
	}
	t.lines.name = f.name
	defer t.lines.end()
	n, err := steadyFile{f.file}.WriteTo(t.lines)
	f.offset += n
	return err
}

// startFrom returns the offset at which "+n" begins.
func (t *tail) startFrom(f *usftp.File) (int64, error) {
	if t.o.Count <= 1 {
		return 0, nil
	}
	if t.o.Bytes {
		return t.o.Count - 1, nil
	}
	r := bufio.NewReaderSize(f, 64<<10)
	var at int64
	for line := int64(1); line < t.o.Count; {
		part, err := r.ReadSlice('\n')
		at += int64(len(part))
		switch err {
		case nil:
			line++
		case bufio.ErrBufferFull:
		default:
			return at, noEOF(err)
		}
	}
	return at, nil
}

const (
	firstBack = 64 << 10 // read from the end at first
	mostBack  = 1 << 20
)

// startOfLast returns the offset of a file's last n lines, reading backwards, and what is there, if
// the first piece read has all of it.
func startOfLast(f *usftp.File, size, n int64) (start int64, data []byte, err error) {
	if n == 0 {
		return size, nil, nil
	}
	end, length := size, int64(firstBack)
	for last := true; end > 0; last = false {
		from := max(0, end-length)
		piece := make([]byte, end-from)
		m, err := f.ReadAt(piece, from)
		if err != nil && err != io.EOF {
			return 0, nil, err
		}
		piece = piece[:m]
		if data = nil; last {
			data = piece
			piece = bytes.TrimSuffix(piece, []byte("\n")) // it ends the last line
		}
		for {
			i := bytes.LastIndexByte(piece, '\n')
			if i < 0 {
				break
			}
			if n--; n == 0 {
				return from + int64(i) + 1, data[min(i+1, len(data)):], nil
			}
			piece = piece[:i]
		}
		end, length = from, min(2*length, mostBack)
	}
	return 0, data, nil
}

// lastOf prints the last lines or bytes of a file that can only be read forwards.
func lastOf(w io.Writer, r io.Reader, o HeadOptions) (read int64, err error) {
	var held [][]byte
	var bytes int64
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		read += int64(len(line))
		if len(line) > 0 {
			held = append(held, line)
			bytes += int64(len(line))
		}
		for len(held) > 0 && (!o.Bytes && int64(len(held)) > o.Count ||
			o.Bytes && bytes-int64(len(held[0])) >= o.Count) {
			bytes -= int64(len(held[0]))
			held = held[1:]
		}
		if err != nil {
			if err != io.EOF {
				return read, err
			}
			break
		}
	}
	for i, line := range held {
		if i == 0 && o.Bytes && bytes > o.Count {
			line = line[bytes-o.Count:]
		}
		if _, err := w.Write(line); err != nil {
			return read, err
		}
	}
	return read, nil
}

// follow prints the data added to the files until the verb is over. It replaces a lost connection
// itself and continues where it was, so its output need not be kept for another run.
func (t *tail) follow() {
	if t.flush(); t.over() {
		return
	}
	if printed, ok := t.Out.(*replay); ok {
		t.out.Reset(printed.out)
	}
	tick := time.NewTicker(cmp.Or(t.o.Interval, time.Second))
	defer tick.Stop()
	for len(t.files) > 0 && (!t.over() || t.renew()) {
		t.flush()
		select {
		case <-t.ctx.Done():
			return
		case <-t.client.Done():
			t.err = cmp.Or(t.client.Wait(), usftp.ErrClosed)
			continue
		case <-tick.C:
		}
		if t.Waiting != nil {
			t.Waiting()
		}
		t.look()
	}
}

// renew continues over another connection if the last one was lost, with the data added to the
// files in the meantime.
func (t *tail) renew() bool {
	if t.Renew == nil || t.ctx.Err() != nil || !errors.Is(t.err, net.ErrClosed) {
		return false
	}
	client := t.Renew(t.err, true)
	if client == nil {
		return false
	}
	t.Client, t.client, t.err = client, client.WithContext(t.ctx), nil
	kept := t.files[:0]
	for _, f := range t.files {
		if !f.gone {
			file, err := t.client.Open(t.at(f.name))
			t.fail("follow", f.name, err)
			switch {
			case err == nil:
				f.file = file
			case t.over(): // lost again
			case !t.o.Retry:
				continue
			default:
				f.gone = true
			}
		}
		kept = append(kept, f)
	}
	t.files = kept
	return !t.over() || t.renew()
}

// A look holds the server's answers about a followed file: by its handle before and after asking by
// its name, so that growth in between can be told apart from another file.
type look struct {
	before, after *usftp.Pending[*usftp.FileStat]
	name          *usftp.Pending[fs.FileInfo]
}

// look requests all sizes at once, and prints the data added.
func (t *tail) look() {
	looks := make([]look, len(t.files))
	for i, f := range t.files {
		if !f.gone {
			looks[i].before = f.file.Async().Stat()
		}
		if t.o.Retry {
			looks[i].name = t.client.Async().Stat(t.at(f.name))
			if !f.gone {
				looks[i].after = f.file.Async().Stat()
			}
		}
	}
	kept := t.files[:0]
	for i, f := range t.files {
		if t.over() {
			kept = append(kept, t.files[i:]...)
			break
		}
		if t.took(f, looks[i]) {
			kept = append(kept, f)
		}
	}
	t.files = kept
}

// took handles the answers about a file. It returns false if the file is no longer followed.
func (t *tail) took(f *followed, l look) bool {
	if !f.gone {
		stat, err := l.before.Wait()
		if err == nil {
			err = t.printAdded(f, int64(stat.Size))
		}
		switch {
		case err == nil:
			f.why = ""
		case t.o.Retry:
			t.failOnce(f, err)
		default:
			readFailed(t.job, f.name, err)
			if !t.over() {
				f.file.Close()
				return false
			}
		}
	}
	if !t.o.Retry || t.over() {
		return true // if the connection is lost, renew opens the file again
	}
	info, err := l.name.Wait()
	if err == nil && info.IsDir() {
		err = errIsDirectory
	}
	switch {
	case err != nil:
		if !f.gone {
			t.drop(f)
		}
		t.failOnce(f, err)
	case f.gone || replaced(l, statOf(info)):
		if !f.gone {
			t.drop(f)
			t.reopen(f, "was replaced; following the new file")
		} else {
			t.reopen(f, "has appeared; following it")
		}
	}
	return true
}

// printAdded prints the data added to a file.
func (t *tail) printAdded(f *followed, size int64) error {
	if size < f.offset {
		t.say(t.title(f.name) + " was truncated")
		f.offset = 0
	}
	if size == f.offset {
		return nil
	}
	t.headings.more(f.name)
	if err := t.copyFrom(f); err != nil || f.offset >= size || !t.openLonger(f) {
		return err
	}
	return t.copyFrom(f)
}

// openLonger reopens a file that goes on where it seemed to end, and reports whether that can help:
// some hosts, such as ProFTPD, read only what a file held when it was opened. The name must not
// belong to another file by now.
func (t *tail) openLonger(f *followed) bool {
	if oneHandle(t.job) || private.OfClient(t.client).WorksInOrder() { // OpenSSH's reads all of it
		return false
	}
	l := look{before: f.file.Async().Stat()}
	file, err := t.client.Open(t.at(f.name))
	if err != nil {
		return false
	}
	now, err := file.Async().Stat().Wait()
	l.after = f.file.Async().Stat()
	if err != nil || replaced(l, *now) {
		file.Close()
		return false
	}
	f.file.Close()
	f.file = file
	return true
}

// replaced reports whether a name no longer refers to the open file. Between the two answers by
// handle, a file's size and time can only grow, unless it is truncated.
func replaced(l look, name usftp.FileStat) bool {
	before, err := l.before.Wait()
	after, afterErr := l.after.Wait()
	if err != nil || afterErr != nil {
		return false
	}
	outside := func(a, b, x uint64) bool { return x < min(a, b) || x > max(a, b) }
	return outside(before.Size, after.Size, name.Size) ||
		outside(uint64(before.Mtime), uint64(after.Mtime), uint64(name.Mtime)) ||
		before.UID == after.UID && before.UID != name.UID
}

func (t *tail) drop(f *followed) {
	f.file.Close()
	f.gone = true
}

// failOnce reports why a file cannot be followed, unless that was the last report about it. Errors
// that end the verb always go to fail.
func (t *tail) failOnce(f *followed, err error) {
	if outputLost(t.job) {
		return
	}
	if why := reasonOf(err); t.over() || errors.Is(err, net.ErrClosed) || why != f.why {
		t.fail("follow", f.name, err)
		f.why = why
	}
}

// reopen reports the change, and prints the file that now has the name from its beginning.
func (t *tail) reopen(f *followed, what string) {
	file, err := t.client.Open(t.at(f.name))
	if err != nil {
		t.failOnce(f, err)
		return
	}
	t.say(t.title(f.name) + " " + what)
	f.file, f.gone, f.why, f.offset = file, false, "", 0
	t.headings.more(f.name)
	if err := t.copyFrom(f); err != nil {
		readFailed(t.job, f.name, err)
	}
}
