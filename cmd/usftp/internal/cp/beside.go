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
	look := func(next []file) []int64 { return c.look(next, target) }
	inflight.CopyAll(c.Ctx, c.atOnce(files, target), c.options.Events, files, look,
		func(f file) inflight.Copy { return c.one(f, target, several, taken) })
}

// one returns the copy of one source, which other copies may be beside.
func (c *Copier) one(f file, target connect.Place, several bool,
	taken connect.Taken[file]) inflight.Copy {
	ended := func(ok bool) bool {
		if ok || c.moves() {
			taken.Add(f.base(), f)
		}
		return ok
	}
	return inflight.Copy{Name: f.base(),
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

// look looks at sources on one host, and their targets, before they are copied.
func (c *Copier) look(files []file, target connect.Place) []int64 {
	from := inflight.End{Client: c.client(files[0].Place)}
	to := inflight.End{Client: c.client(target)}
	if files[0].Remote != (from.Client != nil) || target.Remote != (to.Client != nil) {
		return []int64{-1} // a copy that cannot begin says why
	}
	for _, f := range files {
		from.Names = append(from.Names, f.path)
		to.Names = append(to.Names, target.Below(f.base()))
	}
	return inflight.Look(from, to)
}
