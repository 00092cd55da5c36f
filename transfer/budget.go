package transfer

import (
	"runtime"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

// mostStepwise limits the files in flight that are sent in steps, each watched by goroutines.
const mostStepwise = 256

// measure decides how many files are in flight at once, and which of them are small.
func (t *tree) measure() error {
	from, err := limitsOf(t, t.src)
	if err != nil {
		return endpoint.OfSource(err)
	}
	to, err := limitsOf(t, t.dst)
	if err != nil {
		return err
	}
	handles := min(from.handles, to.handles)
	if t.src.Conn() != nil && t.src.Conn() == t.dst.Conn() { // each file is open twice
		handles = max(1, handles/2)
	}
	b := filecopy.NewBudget(handles)
	b.Trip, b.Small = from.trip+to.trip, min(from.small, to.small)
	if t.copies.Limiter != nil { // a file that takes longer shows its progress
		b.Small = int(min(int64(b.Small), t.options.RateLimit/4))
	}
	files := max(from.files, to.files)
	if len(t.copies.Conns()) > 0 {
		files = filesInFlight(b.Trip)
	}
	stepwise := min(from.small, to.stepwise)
	if stepwise > 0 {
		files = min(files, mostStepwise)
	}
	if t.options.MaxFiles > 0 {
		files = t.options.MaxFiles
	}
	b.NoHelper = t.options.KeepDirLinks // the helper follows no link
	t.copies.Budget = b
	queue := files
	if from.queue > 0 {
		queue = min(files, from.queue)
	}
	t.walk = newWalk(t, files, min(t.plan.walkers(from, to),
		max(t.rules.walkers, walkersInFlight(b.Trip))), queue)
	t.walk.stepwise = stepwise
	t.leftovers.listings = make(chan struct{}, max(1, min(to.listings, mostSwept)))
	return nil
}

// filesInFlight returns how many small files may be in flight at once. A file takes a few round
// trips, while a fast server could handle tens of thousands a second, so the number needed to keep
// it busy grows with the round trip. Without noticeable latency, more waiting files mean more
// requests and replies per system call: 128 take a fifth less processor time than 32.
func filesInFlight(trip time.Duration) int {
	const (
		least = 128
		most  = 2048
		perMs = 128
	)
	return max(least, int(min(trip.Seconds()*1000*perMs, most)))
}

// walkersInFlight returns how many directories may be listed, or made at the target, at once. Each
// takes a few round trips: at 50 ms, 16 at a time with a few files each find far fewer files than
// the link carries. Without noticeable latency, 128 take a fifth more processor time than 16.
func walkersInFlight(trip time.Duration) int {
	const perMs = 10
	return max(usualWalkers, int(min(trip.Seconds()*1000*perMs, mostWalkers)))
}

// limits bound the work in flight at an endpoint.
type limits struct {
	handles  int64 // open at once
	listings int   // directories that may be listed at once
	files    int   // copied at once without a network to wait for; 0 if the round trip decides
	queue    int   // files found ahead of the copies
	small    int   // the largest file sent in one piece; below 0 for none
	stepwise int   // the largest file sent in steps with many others in flight
	trip     time.Duration
}

// limitsOf returns the limits of an endpoint, which a host sets. This machine has enough files at
// once to keep its processors busy with the kernel's work on names.
func limitsOf(t *tree, e endpoint.Place) (limits, error) {
	if host, ok := e.(interface{ limits(*tree) (limits, error) }); ok {
		return host.limits(t)
	}
	return limits{handles: 1 << 20, listings: 1 << 20, files: 2 * runtime.GOMAXPROCS(0),
		queue: 256, small: largestSmall}, nil
}

const (
	// largestSmall is the largest file sent in one piece, if packets can be that long.
	largestSmall = 256 << 10

	// unknownHandles limits the open files on a server that does not tell its limit.
	unknownHandles = 128
)

// hostLimits asks a host for its limits. files is the share of its handles that is for files, in
// eighths; most others are for listings. writes is set for the target.
func (j *job) hostLimits(e *endpoint.Host, files int64, writes bool) (l limits, err error) {
	err = e.WithReconnect(j.route.Source, func(client *usftp.Client, _ bool) error {
		limits, err := client.Limits()
		if err != nil {
			return err
		}
		piece, write, err := private.OfClient(client).DataSizes()
		if writes {
			piece = write
		}
		l.small = min(piece, largestSmall)
		l.handles, l.listings = unknownHandles, usualWalkers
		if _, known := client.HasExtension(wire.ExtLimits); known {
			l.handles = 1 << 20
			if limits.MaxOpenHandles > 0 { // keep some for listings, and of these some for other uses
				all := int64(min(limits.MaxOpenHandles, 1<<20))
				l.handles = max(1, all*files/8)
				rest := all - l.handles
				l.listings = int(max(1, rest-rest/8))
			}
		}
		return err
	})
	l.trip = max(e.Trip(), e.Pooled().LoginTrip())
	return l, err
}

func (s *remoteSource) limits(of *tree) (limits, error) {
	return of.hostLimits(s.Host, 5, false)
}

func (t remoteTarget) limits(of *tree) (limits, error) {
	files := int64(6)
	if of.rules.walkers > 0 { // it is listed, too
		files = 5
	}
	l, err := of.hostLimits(t.Host, files, true)
	// A small file sent in one piece cannot be fsynced on the way, except in one request. With Sync
	// such files take as many steps as large ones, with many in flight.
	if of.options.Sync {
		l.stepwise, l.small = l.small, -1
		if err == nil && private.OfClient(t.Conn().Host().Client).PutsFiles() {
			l.small = min(l.stepwise, wire.LargestFile)
		}
	}
	return l, err
}
