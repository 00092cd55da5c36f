package transfer

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"github.com/usftp/usftp"
)

// inPlace opens a target on a host that is written in place.
type inPlace struct {
	o      *remoteOutput
	c      *fileCopy
	source *facts
	perm   fs.FileMode // of a new file
}

// open opens the target itself. Version 3 has no flag that stops OPEN from following links
// (draft-ietf-secsh-filexfer-02, section 6.3), so between LSTAT and OPEN another user on the host
// could still put a link in the file's place; the source cannot.
func (p inPlace) open() (*usftp.File, error) {
	o, c := p.o, p.c
	client, old, flags := o.session.client, o.info, os.O_WRONLY|os.O_CREATE
	if c.entry != nil {
		info, err := client.Lstat(o.name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			old, flags = nil, flags|os.O_EXCL
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			if err := client.Remove(o.name); err != nil {
				return nil, err
			}
			old, flags = nil, flags|os.O_EXCL
		case !info.Mode().IsRegular():
			return nil, inTheWay(o.name, info.Mode())
		default:
			old = info
		}
	}
	switch {
	case old == nil:
		return client.OpenFile(o.name, flags|os.O_TRUNC, p.perm)
	case !old.Mode().IsRegular():
		return client.OpenFile(o.name, flags, p.perm)
	}
	return p.over(old)
}

// over opens an existing file to write over it. It does not empty the file, which may be the
// source: the host may be this machine, and a file can have several names. seal cuts it to its new
// size. On hosts that take only whole files, it is emptied if it is certainly not the source.
func (p inPlace) over(old fs.FileInfo) (f *usftp.File, err error) {
	o := p.o
	client, quirks, flags := o.session.client, o.end.placement.quirks, os.O_WRONLY|os.O_CREATE
	other := p.c.tries.once || isOther(p.source, old) // what can be read only once is no file
	if !other || !quirks.WholeFiles.Load() {
		if f, err = client.OpenFile(o.name, flags, p.perm); err == nil {
			o.over = sizeOf(old)
		}
		if !other || !refused(err) {
			return f, err
		}
	}
	f, truncErr := client.OpenFile(o.name, flags|os.O_TRUNC, p.perm)
	if err == nil {
		return f, truncErr
	}
	if truncErr != nil {
		return nil, err
	}
	quirks.WholeFiles.Store(true)
	return f, nil
}

// isOther reports whether a file on a host is certainly not the source.
func isOther(source *facts, target fs.FileInfo) bool {
	stat, ok := target.Sys().(*usftp.FileStat)
	if !ok {
		return false
	}
	return source.hasMode && !source.mode.IsRegular() ||
		source.size >= 0 && stat.HasSize() && uint64(source.size) != stat.Size ||
		source.hasTimes && stat.HasTimes() && uint32(source.mtime.Unix()) != stat.Mtime
}

// sizeOf returns the size of a file on a host, or the largest possible if the host did not tell.
func sizeOf(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*usftp.FileStat); ok && stat.HasSize() && int64(stat.Size) >= 0 {
		return int64(stat.Size)
	}
	return math.MaxInt64
}
