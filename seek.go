package usftp

import (
	"errors"
	"io"
	"io/fs"

	"github.com/usftp/usftp/wire"
)

// StatStrategy says what to do where a file's size is needed and was not asked for: by Seek from
// the end.
type StatStrategy int

const (
	// StatLazy, the default, takes the size that is cached and asks where there is none, and always
	// on files that are open for writing.
	StatLazy StatStrategy = iota
	// StatAlways asks every time.
	StatAlways
	// StatNever takes the size that is cached, however old, and fails where there is none.
	StatNever
)

// errNoSize is why a Seek from the end fails where the size is not known.
var errNoSize = errors.New("the file's size is not known")

// Seek sets the offset of the next Read or Write. From the end it may cost a round trip: see
// [StatStrategy]. It is an error to seek to before the file's beginning, to beyond its end is none.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	open, err := f.opened("seek")
	if err != nil {
		return 0, err
	}
	f.dropAhead()
	f.readEnd = 0
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		size, err := f.size(open)
		if err != nil {
			return 0, err
		}
		offset += size
	default:
		return 0, f.wrap("seek", fs.ErrInvalid)
	}
	if offset < 0 {
		return 0, f.wrap("seek", fs.ErrInvalid)
	}
	f.offset = offset
	return offset, nil
}

// size returns the file's size, from what is known or else from the server, as the strategy has it.
func (f *File) size(open *openFile) (int64, error) {
	f.mu.Lock()
	size, known := f.attrs.Size, f.cached && f.attrs.HasSize()
	f.mu.Unlock()
	strategy := open.client.options.statStrategy
	if strategy == StatAlways || strategy == StatLazy &&
		(!known || open.flags&wire.OpenWrite != 0) {
		stat, err := run(f.ctx, f.statOperation())
		if err != nil {
			return 0, err
		}
		size, known = stat.Size, stat.HasSize()
	}
	if !known {
		return 0, f.wrap("seek", errNoSize)
	}
	return int64(size), nil
}

// Progress returns how many bytes, from its beginning and without a gap, the ReadFrom or WriteTo
// under way, or the last one, has behind it: acknowledged by the server, or handed to the writer.
func (f *File) Progress() int64 { return f.progress.Load() }

// appends tells whether the file is open with O_APPEND.
func (f *File) appends() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open != nil && f.open.flags&wire.OpenAppend != 0
}
