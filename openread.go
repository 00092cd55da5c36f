package usftp

import (
	"github.com/usftp/usftp/wire"
)

// OpenRead opens a file for reading and asks for its attributes in the same round trip, so that they are at hand: the result's Stat
// is the first thing that most programs ask for, and a transfer that knows the size sends no request too many. A server
// that tells no attributes is no error.
func (c *Client) OpenRead(name string) (*File, error) {
	stat := start(c.ctx, c.session, c.statOperation("stat", wire.TypeStat, name))
	f, err := run(c.ctx, c.session, c.openOperation(c.ctx, name, wire.OpenRead, wire.Attrs{}))
	if err != nil {
		return nil, err
	}
	if info, err := stat.wait(c.ctx); err == nil {
		f.stat = info.Sys().(*FileStat)
	}
	return f, nil
}

// Attrs returns the attributes that were heard of the file last, nil where none were. It asks nobody.
func (f *File) Attrs() *FileStat {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stat
}
