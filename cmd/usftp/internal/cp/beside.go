package cp

import (
	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/inflight"
	"github.com/usftp/usftp/transfer"
)

// atOnce returns how many files may be in flight at once.
func (c *Copier) atOnce(files []file, target connect.Place) int {
	if len(files) < 2 || target.Stream || c.dryRun || c.stopOnError ||
		!inflight.Suits(&c.options) {
		return 1
	}
	places := []connect.Place{target}
	for _, f := range files {
		if !sameHost(f.Place, places[len(places)-1]) {
			places = append(places, f.Place)
		}
	}
	var clients []*usftp.Client
	for _, p := range places {
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
	return a.Remote == b.Remote && a.Target == b.Target
}

// copyAll copies the sources, small files beside each other: over a link one takes little but round
// trips.
func (c *Copier) copyAll(files []file, target connect.Place, several bool) {
	taken := make(connect.Taken[file])
	var sizes inflight.Sizes
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
			Alone: func(again bool) bool { return ended(c.copyAlone(f, target, several, again)) },
			Beside: func(again bool) func(events func(transfer.Event)) error {
				return c.beside(f, target, again)
			},
			Ended: func(err error) {
				c.ended(err)
				ended(err == nil)
			}}
		if q.Beside() {
			one.Size = sizes.Of(i, func() []int64 { return c.look(files[i:], target) })
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

// look looks at a source and its target before it is copied, and at some that follow.
func (c *Copier) look(files []file, target connect.Place) []int64 {
	first := files[0].Place
	from := inflight.End{Client: c.client(first)}
	to := inflight.End{Client: c.client(target)}
	for _, f := range files[:min(inflight.MostLooked, len(files))] {
		if f.Stream != first.Stream || !sameHost(f.Place, first) {
			break
		}
		from.Names = append(from.Names, f.path)
		to.Names = append(to.Names, connect.Below(target.Path(), f.base()))
	}
	if first.Stream || first.Remote != (from.Client != nil) ||
		target.Remote != (to.Client != nil) {
		return []int64{-1} // a copy that cannot begin says why
	}
	return inflight.Look(from, to)
}
