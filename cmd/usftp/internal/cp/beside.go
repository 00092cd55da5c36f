package cp

import (
	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/inflight"
	"github.com/usftp/usftp/transfer"
)

// atOnce returns how many files of a place may be in flight at once.
func (c *Copier) atOnce(files []file, target connect.Place) int {
	if len(files) < 2 || files[0].Stream || target.Stream || c.dryRun || c.stopOnError ||
		!inflight.Suits(&c.options) {
		return 1
	}
	var clients []*usftp.Client
	for _, p := range []connect.Place{files[0].Place, target} {
		client := c.client(p)
		switch {
		case client != nil:
			clients = append(clients, client)
		case p.Remote:
			return 1
		}
	}
	return inflight.AtOnce(clients...)
}

// sameHost reports whether two places are on one host, or both on this machine.
func sameHost(a, b connect.Place) bool {
	a.Target.Path, b.Target.Path = "", ""
	return a.Remote == b.Remote && a.Stream == b.Stream && a.Target == b.Target
}

// copyAll copies the sources, those on one host before it connects to the next one.
func (c *Copier) copyAll(files []file, target connect.Place, several bool) {
	taken := make(connect.Taken[file])
	for len(files) > 0 && !c.over() {
		n := 1
		for n < len(files) && sameHost(files[n].Place, files[0].Place) {
			n++
		}
		c.copyFrom(files[:n], target, several, taken)
		files = files[n:]
	}
}

// copyFrom copies sources on one host, small files beside each other: over a link one takes little
// but round trips.
func (c *Copier) copyFrom(files []file, target connect.Place, several bool,
	taken connect.Taken[file]) {
	look := lookout{c: c, files: files, target: target}
	q := inflight.New(c.Ctx, c.atOnce(files, target), c.options.Events)
	for i, f := range files {
		ended := func(ok bool) bool {
			if ok || c.moves() {
				taken.Add(f.base(), f)
			}
			return ok
		}
		one := inflight.Copy{Name: f.base(), Size: -1,
			Check: func() bool { return !c.over() && c.isFree(taken, f, target) },
			Alone: func(events func(transfer.Event), again bool) bool {
				return ended(c.copyAlone(f, target, several, again, events))
			},
			Beside: func(again bool) func(events func(transfer.Event)) error {
				return c.beside(f, target, again)
			},
			Ended: func(err error) {
				if err != nil && c.Ctx.Err() == nil {
					c.untried-- // it has left something, and is reported
				}
				c.ended(err)
				ended(err == nil)
			}}
		if q.Beside() {
			one.Size = look.size(i)
		}
		q.Add(one)
	}
	q.Finish()
}

// beside returns the function that copies a source beside others, or nil if it has reported that a
// host cannot be reached.
func (c *Copier) beside(f file, target connect.Place,
	again bool) func(events func(transfer.Event)) error {
	ends, ok := c.ends(f, target, true)
	if !ok {
		return nil
	}
	ends.again = again
	return func(events func(transfer.Event)) error {
		return c.copy(ends, inflight.Options(c.options, events))
	}
}

// mostLooked limits the sources that are looked at together.
const mostLooked = 256

// A lookout looks at the sources of a host and their targets before they are copied, at many at a
// time.
type lookout struct {
	c      *Copier
	files  []file
	target connect.Place
	sizes  []int64
}

// size returns the size of a source, negative if it must be copied alone. It is called for one after
// another.
func (l *lookout) size(i int) int64 {
	if i < len(l.sizes) {
		return l.sizes[i]
	}
	first := l.files[i].Place
	from := inflight.End{Client: l.c.client(first)}
	to := inflight.End{Client: l.c.client(l.target)}
	for _, f := range l.files[i:min(i+mostLooked, len(l.files))] {
		from.Names = append(from.Names, f.path)
		to.Names = append(to.Names, connect.Below(l.target.Path(), f.base()))
	}
	sizes := []int64{-1} // a copy that cannot begin says why
	if first.Remote == (from.Client != nil) && l.target.Remote == (to.Client != nil) {
		sizes = inflight.Look(from, to)
	}
	l.sizes = append(l.sizes, sizes...)
	return l.sizes[i]
}
