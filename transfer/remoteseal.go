package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// sealing is what happens to a file on a host between its contents and its name.
type sealing struct {
	o  *remoteOutput
	c  *fileCopy
	in input
}

// run proves that the file is whole if several handles wrote it, cuts off what is left of an old
// file, sets its attributes, and closes it. On a host that works in order everything is sent at
// once and takes one round trip, in which the other handles are closed too.
func (s sealing) run() error {
	o, c := s.o, s.c
	var steps []step
	if striper := o.striper; striper != nil {
		// first, since each connection answers in an order of its own
		if err := striper.prove(); err != nil {
			return err
		}
		steps = append(steps, striper.part)
		o.striper = nil
	}
	set, err := s.attrs()
	if err != nil {
		return err
	}
	f := o.file
	if n := c.result.Bytes; n < o.over {
		steps = append(steps, func() func() error {
			cut := waits(c.ctx, f.Async().Truncate(n))
			return func() error { return s.cutRefused(cut()) }
		}, func() func() error { // some servers say yes and do nothing
			looked := f.Async().Stat()
			return func() error {
				stat, err := looked.WaitContext(c.ctx)
				if err == nil && stat.HasSize() && int64(stat.Size) > n {
					o.end.placement.quirks.WholeFiles.Store(true)
					return errNotCut
				}
				return nil
			}
		})
	}
	if set != (usftp.NewAttrs{}) {
		steps = append(steps, func() func() error {
			given := waits(c.ctx, f.Async().SetAttrs(set))
			return func() error { return s.attrsRefused(given()) }
		})
	}
	if c.options.Sync || c.options.Verify && o.session.syncs(c) {
		steps = append(steps, func() func() error { return waits(c.ctx, f.Async().Sync()) })
	}
	steps = append(steps, func() func() error {
		closed := waits(c.ctx, f.Async().Close())
		return func() error { return o.session.explainWrite(closed(), path.Dir(o.name)) }
	})
	return take(steps, private.OfClient(o.session.client).WorksInOrder())
}

// attrs returns the attributes to set on the target.
func (s sealing) attrs() (set usftp.NewAttrs, err error) {
	o, c, source := s.o, s.c, s.in.facts()
	atime, mtime := source.times()
	seconds := mtime.Unix()
	if source.hasTimes && (c.options.Preserve ||
		c.entry != nil && seconds >= 0 && seconds <= math.MaxUint32) {
		set.SetTimes, set.Atime, set.Mtime = true, atime, mtime
	}
	if c.options.Preserve && source.hasMode {
		// without setuid and setgid: the copy would run as the user who made it
		set.SetMode, set.Mode = true, source.mode.Perm()
	} else if o.info != nil && o.temp != "" {
		set.SetMode, set.Mode = true, s.keptMode()
	}
	err = c.options.chown(source.owner, func(uid, gid int) error {
		set.SetOwner, set.UID, set.GID = true, uid, gid
		// its new owner may never have agreed to that
		set.Mode &^= fs.ModeSetuid | fs.ModeSetgid
		return nil
	})
	return set, err
}

// keptMode returns a replaced file's mode for the new one. The setuid and setgid bits stay only if
// owner and group do.
func (s sealing) keptMode() fs.FileMode {
	o := s.o
	mode := o.info.Mode()
	if mode&(fs.ModeSetuid|fs.ModeSetgid) == 0 {
		return mode
	}
	old, _ := o.info.Sys().(*usftp.FileStat)
	fresh := new(usftp.FileStat)
	if info, err := o.file.Stat(); err == nil {
		fresh = info.Sys().(*usftp.FileStat)
	}
	known := old != nil && old.HasOwner() && fresh.HasOwner()
	kept := mode
	if !known || old.UID != fresh.UID {
		kept &^= fs.ModeSetuid
	}
	if !known || old.GID != fresh.GID {
		kept &^= fs.ModeSetgid
	}
	if kept != mode {
		s.c.warn("the new file does not keep the old one's setuid and setgid bits, " +
			"since its owner or group differs")
	}
	return kept
}

// errNotCut reports that the rest of a longer old file is still there.
var errNotCut = errors.New("the host does not cut files, and the old one was longer")

func (s sealing) cutRefused(err error) error {
	if !refused(err) {
		return err
	}
	s.o.end.placement.quirks.WholeFiles.Store(true)
	return fmt.Errorf("%w: %w", errNotCut, err)
}

// attrsRefused returns err unless the attributes are optional and were merely refused.
func (s sealing) attrsRefused(err error) error {
	c := s.c
	if err == nil || c.options.Preserve || c.options.Owners || !refused(err) {
		return err
	}
	if s.o.info != nil {
		c.warn("the server does not let the new file have the permissions of the one it replaces: " +
			err.Error())
	}
	return nil
}

// A step sends a request to the host and returns a function that waits for the answer.
type step func() (wait func() error)

// waits returns the second half of a step.
func waits[T any](ctx context.Context, asked *usftp.Pending[T]) func() error {
	return func() error {
		_, err := asked.WaitContext(ctx)
		return err
	}
}

// take runs the steps one after the other until one fails, or all at once. It returns the first
// error.
func take(steps []step, atOnce bool) (first error) {
	var waiting []func() error
	for _, ask := range steps {
		wait := ask()
		if atOnce {
			waiting = append(waiting, wait)
		} else if err := wait(); err != nil {
			return err
		}
	}
	for _, wait := range waiting {
		if err := wait(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
