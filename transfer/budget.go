package transfer

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

// A budget is shared by all files of a tree.
type budget struct {
	memory   *allowance    // bytes that small files in progress hold
	handles  *allowance    // on the hosts
	held     atomic.Int64  // of them
	large    *atomic.Int64 // large files found and not copied yet
	sources  crowd
	targets  crowd
	helpers  helpers
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
	b.helpers.none = t.options.KeepDirLinks // the helper follows no link
	t.budget = b
	queue := files
	if from.queue > 0 {
		queue = min(files, from.queue)
	}
	t.walk = newWalk(t, files, min(t.plan.walkers(from, to),
		max(t.rules.walkers, walkersInFlight(b.trip))), queue)
	b.large = &t.walk.spread.files
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

// walkersInFlight returns how many directories may be listed at once, or made at the target. Each
// takes a few round trips: over 50 ms, 16 at a time with a few files each find far fewer files than
// the link carries. Without noticeable latency, 128 take a fifth more processor time than 16.
func walkersInFlight(trip time.Duration) int {
	const perMs = 4
	return max(usualWalkers, int(min(trip.Seconds()*1000*perMs, mostWalkers)))
}

// isSmall reports whether a file of this size is sent in one piece.
func (b *budget) isSmall(size int64) bool { return size >= 0 && size <= int64(b.small) }

// spreads reports whether each large file uses one session, because others use the rest. A single
// file, which has no budget, uses all of them.
func (b *budget) spreads() bool { return b != nil && b.large.Load() > fewFiles }

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

// small is a small file in memory.
type small struct {
	budget *budget
	size   int64
	counts *slot // counts the file while it is open; nil if nothing does
	takes  bool  // its size is taken from the budget's memory before it is read

	data []byte // nil until it was read
	free func() // gives data back
	held bool   // its size was taken
}

// read reads the file that info describes; release must be called.
func (s *small) read(ctx context.Context, from endpoint.Opener, name string,
	how endpoint.Opening, info *endpoint.Info) error {
	err := from.ReadWhole(ctx, name, how, info, s)
	if err == nil && s.data == nil { // it is empty
		s.data = []byte{}
	}
	return err
}

// Opened implements [endpoint.Memory].
func (s *small) Opened() {
	if s.counts != nil {
		s.counts.opened(true)
	}
	if s.takes && !s.held {
		s.budget.memory.take(s.size)
		s.held = true
	}
}

// Lend implements [endpoint.Memory].
func (s *small) Lend(n int) (lent []byte) {
	if s.free != nil { // what was in it did not count
		s.free()
	}
	lent, s.free = s.budget.buffers.get(n)
	s.data = lent[:s.size]
	return lent
}

func (s *small) release() {
	if s.free != nil {
		s.free()
	}
	if s.held {
		s.budget.memory.give(s.size)
	}
	s.data, s.free, s.held = nil, nil, false
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
	listings int   // directories that may be listed at once
	files    int   // copied at once if no link has to be waited for; 0 if the round trip decides
	queue    int   // files found before they are copied
	small    int   // the largest file sent in one piece; below 0 for none
	stepwise int   // the largest sent in steps, of which many may be in progress all the same
	trip     time.Duration
}

// limits allows enough files at once to keep the processors busy with the kernel's work on names.
func (localEnd) limits() (limits, error) {
	return limits{handles: 1 << 20, listings: 1 << 20, files: 2 * runtime.GOMAXPROCS(0),
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
	err = e.WithReconnect(e.job.route.Source, func(client *usftp.Client, _ bool) error {
		limits, err := client.Limits()
		if err != nil {
			return err
		}
		read, write, err := private.OfClient(client).DataSizes()
		l.small = min(piece(read, write), largestSmall)
		l.handles, l.listings = unknownHandles, usualWalkers
		if _, known := client.HasExtension(wire.ExtLimits); known {
			l.handles = 1 << 20
			if limits.MaxOpenHandles > 0 { // keep some for listings and other uses
				all := int64(min(limits.MaxOpenHandles, 1<<20))
				l.handles = max(1, all*3/4)
				l.listings = int(max(1, all-l.handles))
			}
		}
		return err
	})
	l.trip = max(e.Trip(), e.Pooled().LoginTrip())
	return l, err
}

func (t *remoteTarget) limits() (limits, error) {
	l, err := t.remoteEnd.limits(func(_, write int) int { return write })
	// A small file sent in one piece cannot be fsynced on the way, except in one request. With Sync
	// these files take as many steps as large ones, and many are in progress at a time.
	if t.job.options.Sync {
		l.stepwise, l.small = l.small, -1
		if err == nil && private.OfClient(t.link.Host().Client).PutsFiles() {
			l.small = min(l.stepwise, wire.LargestFile)
		}
	}
	return l, err
}

// A host may allow few open files and not say so: version 3 has no status for it. OpenSSH's server
// answers FAILURE; SFTPGo, which allows 20 for each client as it is installed, PERMISSION_DENIED;
// Maverick's says "Maximum concurrent transfers exceeded". A file that is refused while others are
// open waits until one of them has been closed, and the tree goes on with as many as were open. But
// most files that are denied are simply denied. So that counts only if more may have been open than
// the host is known to allow, and no longer once waiting has not helped many.

// A crowd is how many of a tree's files are open on a host.
type crowd struct {
	now, most atomic.Int64 // that are known to be open, and were at once
	denied    atomic.Int64 // files that waited in vain
	limited   atomic.Bool  // a file could be opened after it had waited
}

const (
	// mostCrowded is how often a file is opened again: others may be refused later than this one.
	// mostDenied is the same as long as waiting has not helped, fewDenied how many files try it,
	// and fewestOthers how many others must be open.
	mostCrowded, mostDenied, fewDenied, fewestOthers = 10, 3, 16, 4

	waitedInVain = mostCrowded + 1

	// crowdedPause is how long a file waits that no other will wake, and at most after others did.
	crowdedPause = 50 * time.Millisecond
)

// crowd returns that of the source's or the target's host.
func (b *budget) crowd(source bool) *crowd {
	if source {
		return &b.sources
	}
	return &b.targets
}

// A slot is what one file of a tree has of the budget's handles.
type slot struct {
	budget        *budget // nil for a single file
	held          bool    // it has one
	reads, writes bool    // it is open on the source's host, on the target's

	others int64 // how many files held a handle when it began
	tries  int   // how often an OPEN was refused
	lost   int64 // how many fewer handles there are for that
}

// take waits until the file may have something open, unless it may already. A single file, which
// has no budget, always may.
func (s *slot) take(b *budget) {
	if b == nil {
		return
	}
	if !s.held {
		b.handles.take(1)
		b.held.Add(1)
		s.budget, s.held = b, true
	}
	s.others = b.held.Load() - 1
}

// free gives the handle back, if the file has one.
func (s *slot) free() {
	if s.held {
		s.closed()
		s.held = false
		s.budget.held.Add(-1)
		s.budget.handles.give(1)
	}
}

// opened counts a file that has been opened, until closed.
func (s *slot) opened(source bool) {
	flag := &s.writes
	if source {
		flag = &s.reads
	}
	if !s.held || *flag {
		return
	}
	*flag = true
	k := s.budget.crowd(source)
	now := k.now.Add(1)
	for most := k.most.Load(); now > most && !k.most.CompareAndSwap(most, now); {
		most = k.most.Load()
	}
	if s.tries > 0 && s.tries < waitedInVain {
		k.limited.Store(true)
	}
}

func (s *slot) closed() {
	if s.reads {
		s.budget.sources.now.Add(-1)
	}
	if s.writes {
		s.budget.targets.now.Add(-1)
	}
	s.reads, s.writes = false, false
}

// crowded reports whether the file may not have been opened because too many are.
func (s *slot) crowded(err error) bool {
	path, ok := errors.AsType[*fs.PathError](err)
	status, isStatus := errors.AsType[*usftp.StatusError](err)
	if !ok || path.Op != "open" || !isStatus || !s.held || noRoom(err) ||
		s.tries >= mostCrowded {
		return false
	}
	k, says := s.budget.crowd(isOfSource(err)), strings.ToLower(status.Message)
	switch {
	case strings.Contains(says, "too many"), strings.Contains(says, "concurrent"),
		errors.Is(status, usftp.ErrSSHFxFailure) && !nameRefused(status):
		return true
	case errors.Is(status, fs.ErrNotExist), errors.Is(status, fs.ErrExist),
		errors.Is(status, errors.ErrUnsupported), errors.Is(status, usftp.ErrSSHFxBadMessage):
		return false
	case k.limited.Load():
		return true
	}
	// those that have been closed since, or were refused as well, count, so half may do
	most, others := k.most.Load(), max(s.others, s.budget.held.Load()-1)
	if most == 0 && s.tries > 0 { // otherwise see makeRoom
		return false
	}
	return s.tries < mostDenied && k.denied.Load() < fewDenied && others >= fewestOthers &&
		2*others >= most
}

// makeRoom waits, after an OPEN was refused, for what the refusal may be due to. It returns false
// if there is nothing to wait for. others says that something is open on the host, such as
// directories.
func (s *slot) makeRoom(ctx context.Context, err error, others bool) bool {
	s.tries++
	if s.budget.crowd(isOfSource(err)).most.Load() == 0 {
		return pace.Sleep(ctx, crowdedPause) == nil // the answers about others are on their way
	}
	n, known := s.budget.handles.shrink()
	if n == 0 && !known && s.others == 0 && !others && s.tries > 1 {
		return false
	}
	s.lost += n
	if n == 0 { // a listing is open, or the others have been closed by now
		return pace.Sleep(ctx, crowdedPause) == nil
	}
	s.held = false // take waits until another file has been closed
	s.budget.held.Add(-1)
	// and all that were refused have had the time to give theirs up
	return pace.Sleep(ctx, min(crowdedPause, time.Millisecond<<s.tries)) == nil
}

// inVain ends the waiting of a file that was refused for another reason.
func (s *slot) inVain(err error) {
	if s.tries == 0 || s.tries == waitedInVain {
		return
	}
	k, lost := s.budget.crowd(isOfSource(err)), s.lost
	if k.denied.Add(1); k.limited.Load() { // what nobody had stays away
		lost = min(lost, int64(s.tries))
	}
	s.budget.handles.grow(lost)
	s.tries, s.lost = waitedInVain, 0
}
