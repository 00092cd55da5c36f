package objectfs

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"sync"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// writer is a file opened for writing. Written bytes go into parts, at most three of which are in
// memory. A part is sent when it is full, or when a third unfinished one is needed; it cannot
// change after that.
type writer struct {
	fs      *FS
	session context.Context
	work    context.Context // of requests that outlast the session
	stop    context.CancelFunc
	key     string
	waits   bool      // it is complete, and waits for its final name
	resumed bool      // it continues from kept parts, and nothing has been written yet
	appends bool      // all writes go to the end
	base    *Object   // the object there when the file was opened, or nil
	when    Condition // for the new object to appear
	began   time.Time

	beginning sync.Mutex // held while the upload begins; guards it while parts are sent
	upload    Upload

	mu      sync.Mutex
	changed sync.Cond
	shows   int64 // bytes of the beginning of base that show where nothing is written
	size    int64
	mtime   time.Time
	parts   map[int]*part // in memory
	stored  map[int]Part  // by the index of the first part that they replace
	kept    int           // parts that a resumed upload had, the last one included
	gaveUp  int64         // bytes of parts that the client gave up, and that are still stored
	taking  bool          // a call waits for memory
	account account       // of the memory that parts hold
	dirty   bool          // the file differs from the stored one
	writes  int64
	wrote   time.Time // when the client last wrote
	err     error     // why the upload fails
}

var (
	_ server.FileCounter   = (*writer)(nil)
	_ server.FileDiscarder = (*writer)(nil)
	_ server.FileHasher    = (*writer)(nil)
	_ server.FileStater    = (*writer)(nil)
	_ server.FileSetstater = (*writer)(nil)
)

// inMemory is how many parts of a file are in memory, of which all but one may be in flight.
const inMemory = 3

// mostZeros limits the holes that are filled with zeros: objects have none.
const mostZeros = 1 << 30

var (
	errStored = &server.StatusError{Code: wire.OpUnsupported,
		Message: "this part of the file has been stored already, and cannot be changed any more"}
	errLargeFile = errors.New(
		"the file is too long for the parts it is sent in: give the server more memory for uploads")
	errLargeHole = errors.New("a gap of more than 1 GiB in a file cannot be stored")
)

func newWriter(ctx context.Context, f *FS, key string, upload Upload) *writer {
	w := &writer{fs: f, session: ctx, key: key, upload: upload, began: time.Now(),
		parts: map[int]*part{}, stored: map[int]Part{}}
	w.changed.L = &w.mu
	w.work, w.stop = lasting(ctx)
	return w
}

// WriteAt implements io.WriterAt.
func (w *writer) WriteAt(data []byte, offset int64) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.appends {
		offset = w.size
	}
	if w.resumed {
		w.goBack(offset)
	}
	if err := w.reach(offset+int64(len(data)), offset); err != nil {
		return 0, err
	}
	for n < len(data) {
		index := w.fs.layout.at(offset)
		p, err := w.part(index, offset+int64(len(data)-n))
		if err != nil {
			return n, err
		}
		m, err := p.write(data[n:], offset-p.start)
		if err != nil {
			return n, err
		}
		n, offset = n+m, offset+int64(m)
		w.dirty = true
		w.size = max(w.size, offset)
		w.writes++
		p.used, w.wrote = w.writes, time.Now()
		if p.full() {
			w.send(index)
		}
	}
	return n, nil
}

// reach returns an error if the file cannot be so long, cannot go on at an offset, or waits under a
// temporary name: then no part of it can change any more.
func (w *writer) reach(size, offset int64) error {
	switch {
	case w.waits:
		return errStored
	case size > w.fs.layout.end():
		return errLargeFile
	case offset-w.size > mostZeros:
		return errLargeHole
	}
	return nil
}

// part returns a part to write to, up to end. If there are too many parts it sends one, and it
// waits for memory. The caller holds the lock, which is released meanwhile.
func (w *writer) part(index int, end int64) (*part, error) {
	for {
		if w.err != nil {
			return nil, w.err
		}
		if _, ok := w.stored[index]; ok {
			return nil, errStored
		}
		if p := w.parts[index]; p != nil {
			if p.sending {
				return nil, errStored
			}
			if p.held >= min(end-p.start, p.length) {
				return p, nil
			}
		}
		var err error
		switch p, sending := w.parts[index], w.sending(); {
		case w.taking || p == nil && sending > 0 && len(w.parts) >= inMemory:
			w.changed.Wait()
		case p == nil && len(w.parts)-sending >= unfinished:
			err = w.sendOldest()
		case p == nil:
			start, _ := w.fs.layout.span(index)
			err = w.take(index, end-start)
		default:
			err = w.grow(p, end-p.start)
		}
		if err != nil {
			return nil, err
		}
	}
}

// sendOldest sends the part that has been left alone for longest. The caller holds the lock, which
// is released while this waits for memory for the missing ranges.
func (w *writer) sendOldest() error {
	oldest := w.oldest()
	if oldest < 0 { // only after a WRITE that failed
		return errScattered
	}
	p := w.parts[oldest]
	err := w.grow(p, p.length)
	if err == nil && w.parts[oldest] == p && !p.sending {
		w.send(oldest)
	}
	return err
}

// sending returns how many parts are being sent.
func (w *writer) sending() (n int) {
	for _, p := range w.parts {
		if p.sending {
			n++
		}
	}
	return n
}

// oldest returns the part that was not written to for longest, except the last of the file, whose
// length is not known.
func (w *writer) oldest() int {
	oldest := -1
	for index, p := range w.parts {
		if p.start+p.length > w.size {
			continue
		}
		if oldest < 0 || p.used < w.parts[oldest].used {
			oldest = index
		}
	}
	return oldest
}

// Stat implements [server.FileStater].
func (w *writer) Stat() (fs.FileInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := &info{name: w.key, size: w.size, mtime: w.mtime}
	if i.mtime.IsZero() {
		i.mtime = w.began
	}
	return i, nil
}

// Setstat implements [server.FileSetstater].
func (w *writer) Setstat(attrs wire.Attrs) error {
	if err := w.fs.unwanted(attrs); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if attrs.Has(wire.AttrSize) {
		if attrs.Size > uint64(w.fs.layout.end()) {
			return errLargeFile
		}
		if err := w.resize(int64(attrs.Size)); err != nil {
			return err
		}
	}
	if mtime := mtimeOf(attrs); !mtime.IsZero() {
		w.mtime = mtime
	}
	return nil
}

// resize changes the length of the file. The caller holds the lock.
func (w *writer) resize(size int64) error {
	if err := w.reach(size, size); err != nil {
		return err
	}
	w.await()
	if err := w.cut(size); err != nil {
		return err
	}
	for index, p := range w.parts {
		if p.start >= size {
			w.drop(index)
		} else {
			p.written.cut(size - p.start)
		}
	}
	w.dirty = w.dirty || size != w.size
	w.size, w.shows = size, min(w.shows, size)
	return nil
}

// cut gives up the stored parts beyond a size. They no longer count, but the storage keeps them as
// long as the upload. So the upload starts over if none of its parts is left; otherwise the file may
// not become much shorter.
func (w *writer) cut(size int64) error {
	var left, gone int64
	for index, p := range w.stored {
		switch start, _ := w.fs.layout.span(index); {
		case start >= size:
			gone += p.Size
		case start+p.Size > size:
			return errStored
		default:
			left += p.Size
		}
	}
	switch {
	case left > 0 && gone > 0 && w.gaveUp+gone > (mostStored-1)*size:
		return errCutOff
	case left == 0 && gone > 0:
		if err := w.shorten(w.work); err != nil {
			return err
		}
		gone, w.gaveUp, w.kept = 0, 0, 0
	}
	w.gaveUp += gone
	maps.DeleteFunc(w.stored, func(index int, _ Part) bool {
		start, _ := w.fs.layout.span(index)
		return start >= size
	})
	return nil
}
