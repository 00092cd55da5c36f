package transfer

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
	"golang.org/x/sync/semaphore"
)

// A budget is shared by all files of a tree.
type budget struct {
	memory   *allowance // bytes that small files in progress hold
	handles  *allowance // on the hosts
	buffers  buffers
	trip     time.Duration // one round trip to each host
	small    int           // the largest file sent in one piece
	stepwise int           // the largest sent in steps but in large numbers; see limits
}

const (
	// mostStepwise limits how many files sent in steps are in progress at once, each with
	// goroutines that watch it.
	mostStepwise = 256

	// smallMemory limits the memory that small files in progress hold: contents requested, or not
	// acknowledged yet. It is twice what their channel's window carries in a round trip.
	smallMemory = 4 << 20
)

// measure decides how many files are in progress at once, and which of them are small.
func (t *tree) measure() error {
	from, err := t.src.limits()
	if err != nil {
		return ofSource(err)
	}
	to, err := t.dst.limits()
	if err != nil {
		return err
	}
	handles := min(from.handles, to.handles)
	if t.src.conn() != nil && t.src.conn() == t.dst.conn() { // each file is open twice
		handles = max(1, handles/2)
	}
	b := &budget{trip: from.trip + to.trip, small: min(from.small, to.small),
		stepwise: min(from.small, to.stepwise), memory: newAllowance(smallMemory),
		handles: newAllowance(handles)}
	if t.limiter != nil { // a file that takes longer shows its progress
		b.small = int(min(int64(b.small), t.options.RateLimit/4))
	}
	files := max(from.files, to.files)
	if len(t.conns()) > 0 {
		files = filesInFlight(b.trip)
	}
	if b.stepwise > 0 {
		files = min(files, mostStepwise)
	}
	if t.options.MaxFiles > 0 {
		files = t.options.MaxFiles
	}
	t.budget = b
	queue := files
	if from.queue > 0 {
		queue = min(files, from.queue)
	}
	t.walk = newWalk(t, files, t.plan.walkers(from, to), queue)
	return nil
}

// filesInFlight returns how many small files may be in progress at once. A file takes a few round
// trips, in which a fast server could handle tens of thousands a second, so the number needed to
// keep it busy grows with the round trip. Without noticeable latency, more files waiting means more
// requests and replies per system call: 128 take a fifth less processor time than 32.
func filesInFlight(trip time.Duration) int {
	const (
		least = 128
		most  = 2048
		perMs = 128
	)
	return max(least, int(min(trip.Seconds()*1000*perMs, most)))
}

// isSmall reports whether a file of this size is sent in one piece.
func (b *budget) isSmall(size int64) bool { return size >= 0 && size <= int64(b.small) }

// spreads reports whether each large file uses one session, because others use the rest.
func (t *tree) spreads() bool { return t != nil && t.walk.spread.files.Load() > fewFiles }

// buffers hold the memory for small files, in two sizes; larger buffers are allocated. Those in
// pipe are for hashing large files.
type buffers struct{ small, medium, pipe sync.Pool }

const (
	smallBuffer  = 4<<10 + 1
	mediumBuffer = 32 << 10
)

// get returns n bytes with arbitrary contents.
func (b *buffers) get(n int) (memory []byte, release func()) {
	pool, size := &b.small, smallBuffer
	switch {
	case n > mediumBuffer:
		return make([]byte, n), func() {}
	case n > smallBuffer:
		pool, size = &b.medium, mediumBuffer
	}
	lent, _ := pool.Get().(*[]byte)
	if lent == nil {
		fresh := make([]byte, size)
		lent = &fresh
	}
	return (*lent)[:n], func() { pool.Put(lent) }
}

// An allowance limits what many files share: bytes of memory, a server's handles. Waiters are
// served in order. Their wait ends without a context, since all files give back what they have.
type allowance struct {
	*semaphore.Weighted
	most int64

	mu   sync.Mutex
	lost int64 // taken away by shrink
}

func newAllowance(most int64) *allowance {
	return &allowance{Weighted: semaphore.NewWeighted(most), most: most}
}

// shrink takes away one that the caller has, since more was refused, and the first time what nobody
// has. It returns how much that is: 0 if nobody else has any. known is true if the host has refused
// more before.
func (a *allowance) shrink() (n int64, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known = a.lost > 0
	for !known && a.TryAcquire(1) {
		n++
	}
	if a.most-a.lost-n <= 1 {
		a.Release(n)
		return 0, known
	}
	n++
	a.lost += n
	return n, known
}

// grow gives back what shrink took away.
func (a *allowance) grow(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost -= n
	a.Release(n)
}

func (a *allowance) take(n int64) { a.Acquire(context.Background(), min(n, a.most)) }
func (a *allowance) give(n int64) { a.Release(min(n, a.most)) }

// limits bound what is in progress at an endpoint.
type limits struct {
	handles  int64 // open at once
	listings int   // directories listed at once
	files    int   // copied at once if no link has to be waited for; 0 if the round trip decides
	queue    int   // files found before they are copied
	small    int   // the largest file sent in one piece; below 0 for none
	stepwise int   // the largest sent in steps, of which many may be in progress all the same
	trip     time.Duration
}

// limits allows enough files at once to keep the processors busy with the kernel's work on names.
func (localEnd) limits() (limits, error) {
	return limits{handles: 1 << 20, listings: usualWalkers, files: 2 * runtime.GOMAXPROCS(0),
		queue: 256, small: largestSmall}, nil
}

const (
	// largestSmall is the largest file sent in one piece, if packets can be that long.
	largestSmall = 256 << 10

	// unknownHandles is how many files may be open at once on a server that does not say how many
	// it allows.
	unknownHandles = 128
)

// limits asks the host what may be in progress at once. piece returns the size of a packet's data
// in the direction of the copy.
func (e *remoteEnd) limits(piece func(read, write int) int) (l limits, err error) {
	err = e.Over(e.job.route.Source, func(client *usftp.Client, _ bool) error {
		limits, err := client.Limits()
		if err != nil {
			return err
		}
		read, write, err := private.OfClient(client).DataSizes()
		l.small = min(piece(read, write), largestSmall)
		l.handles, l.listings = unknownHandles, usualWalkers
		most := usualWalkers
		if t := e.job.tree; t != nil {
			most = t.rules.listings
		}
		if _, known := client.HasExtension(wire.ExtLimits); known {
			l.handles = 1 << 20
			if limits.MaxOpenHandles > 0 { // keep some for listings and other uses
				all := int64(min(limits.MaxOpenHandles, 1<<20))
				l.handles = max(1, all*3/4)
				l.listings = int(max(1, min(all-l.handles, int64(most))))
			}
		}
		return err
	})
	l.trip = max(e.Trip(), e.Pooled().LoginTrip())
	return l, err
}
