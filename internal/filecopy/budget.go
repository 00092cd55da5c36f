package filecopy

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/pace"
)

// A Budget is shared by all files of a tree.
type Budget struct {
	memory  *allowance   // bytes that small files in progress hold
	handles *allowance   // open handles on the hosts
	held    atomic.Int64 // handles that files hold
	sources crowd
	targets crowd
	helpers helpers
	buffers buffers
	gate    gate

	Trip     time.Duration // one round trip to each host
	Small    int           // the largest file sent in one piece
	Large    atomic.Int64  // large files found and not copied yet
	NoHelper bool          // no helper may write to the target
}

// NewBudget returns a budget that allows this number of open handles on the hosts.
func NewBudget(handles int64) *Budget {
	b := &Budget{memory: newAllowance(smallMemory), handles: newAllowance(handles)}
	b.gate.opened.L = &b.gate.mu
	return b
}

// smallMemory limits the memory that small files in progress hold: contents requested, or not
// acknowledged yet. It is twice the data that their channel's window carries per round trip.
const smallMemory = 4 << 20

// fewFiles is the number of remaining large files at which each may use several sessions.
const fewFiles = 4

// IsSmall reports whether a file of this size is sent in one piece. A single file, which has no
// budget, is not.
func (b *Budget) IsSmall(size int64) bool {
	return b != nil && size >= 0 && size <= int64(b.Small)
}

// spreads reports whether each large file uses one session, because other files use the rest. A
// single file has no budget and uses all of them.
func (b *Budget) spreads() bool { return b != nil && b.Large.Load() > fewFiles }

// buffers pools memory for small files in two sizes; larger buffers are allocated. The pipe pool is
// for hashing large files.
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
	budget *Budget
	size   int64
	counts *slot // counts the file while it is open; nil if nothing does
	keeps  bool  // the handle is not only for reading
	takes  bool  // its size is taken from the budget's memory before it is read

	data []byte // nil until it is read
	free func() // returns data to its pool
	held bool   // its size has been taken
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

// Opening implements [endpoint.Memory]. It takes back the handle that Closing freed, but not while
// it holds memory: others have a handle and wait for memory.
func (s *small) Opening() {
	if s.counts == nil || s.keeps {
		return
	}
	if s.held {
		s.budget.memory.give(s.size)
		s.held = false
	}
	s.counts.take(s.budget)
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

// Closing implements [endpoint.Memory]. The file's handle serves the next one a round trip earlier,
// which is what limits small files over a long link.
func (s *small) Closing() {
	if s.counts != nil && !s.keeps {
		s.counts.free()
	}
}

// Lend implements [endpoint.Memory].
func (s *small) Lend(n int) (lent []byte) {
	if s.free != nil { // the earlier read does not count
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

// An allowance limits a resource that many files share: bytes of memory, a server's handles.
// Waiters are served in order. They wait without a context, since every file returns its share.
type allowance struct {
	*semaphore.Weighted
	most int64

	mu   sync.Mutex
	lost int64 // removed by shrink
}

func newAllowance(most int64) *allowance {
	return &allowance{Weighted: semaphore.NewWeighted(most), most: most}
}

// shrink removes the caller's unit, since the host refused more, and the first time also all units
// that nobody holds. It returns the number removed, 0 if nobody else holds any. known reports
// whether the host refused more before.
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

// grow restores n units that shrink removed.
func (a *allowance) grow(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost -= n
	a.Release(n)
}

func (a *allowance) take(n int64) { a.Acquire(context.Background(), min(n, a.most)) }
func (a *allowance) give(n int64) { a.Release(min(n, a.most)) }

// A host may limit open files without saying so: version 3 has no status for it. OpenSSH's server
// answers FAILURE; SFTPGo, which allows 20 per client by default, PERMISSION_DENIED; Maverick's
// says "Maximum concurrent transfers exceeded". A file refused while others are open waits until
// one of them is closed, and the tree goes on with as many as were open. But most denials mean
// nothing else. So a denial counts as crowding only if more files may have been open than the host
// is known to allow, and no longer once many have waited in vain.

// A crowd counts a tree's files that are open on a host.
type crowd struct {
	now, most atomic.Int64 // files known to be open, and the most at once
	denied    atomic.Int64 // files that waited in vain
	vain      atomic.Int64 // refusals after waiting, since waiting last helped
	limited   atomic.Bool  // a file was opened after it had waited
}

const (
	// mostCrowded is how often an OPEN is repeated: other files may be refused later than this one.
	// mostLimited is the limit where waiting has helped before: the others may be slow. mostDenied is
	// the limit while it has not, fewDenied the number of files that try it, and fewestOthers the
	// number of others that must be open. After mostVain repeated OPENs of any files, none of which
	// helped, only a host that says that it allows few is believed to.
	mostCrowded, mostLimited, mostDenied, fewDenied, fewestOthers, mostVain = 10, 40, 3, 16, 4, 100

	waitedInVain = mostLimited + 1

	// crowdedPause is how long a file waits if no other will wake it, and at most after one did.
	crowdedPause = 50 * time.Millisecond
)

// crowd returns the crowd on the source's or the target's host.
func (b *Budget) crowd(source bool) *crowd {
	if source {
		return &b.sources
	}
	return &b.targets
}

// A slot is the share of one file of a tree in the budget's handles.
type slot struct {
	budget        *Budget // nil for a single file
	held          bool    // it holds a handle
	reads, writes bool    // it is open on the source's host, on the target's
	named         bool    // what was refused is a temporary name
	passed        bool    // the gate counts it

	others int64 // other files that held a handle when it began
	tries  int   // how often an OPEN was refused
	lost   int64 // handles that shrink removed for that
}

// take waits for a handle, unless the file holds one. A single file has no budget and needs none.
func (s *slot) take(b *Budget) {
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

// free returns the handle if the file holds one.
func (s *slot) free() {
	if s.held {
		s.closed()
		s.held = false
		s.budget.held.Add(-1)
		s.budget.handles.give(1)
	}
}

// opened counts the file as open until closed is called.
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
		k.vain.Store(0)
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

// crowded reports whether err may mean that too many files are open.
func (s *slot) crowded(err error) bool {
	path, ok := errors.AsType[*fs.PathError](err)
	status, isStatus := errors.AsType[*usftp.StatusError](err)
	if !ok || path.Op != "open" || !isStatus || !s.held || endpoint.NoRoom(err) ||
		errors.Is(err, syscall.EROFS) {
		return false
	}
	k, says := s.budget.crowd(endpoint.IsOfSource(err)), strings.ToLower(status.Message)
	helps := k.vain.Load() < mostVain
	switch {
	case s.tries >= mostLimited, s.tries >= mostCrowded && !k.limited.Load():
		return false
	case strings.Contains(says, "too many"), strings.Contains(says, "concurrent"):
		return true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), // also if FAILURE was why
		errors.Is(status, errors.ErrUnsupported), errors.Is(status, usftp.ErrSSHFxBadMessage):
		return false
	case errors.Is(status, usftp.ErrSSHFxFailure) && !endpoint.NameRefused(status):
		return helps
	case k.limited.Load():
		return helps
	}
	// those that have been closed since, or were refused as well, count, so half may do
	most, others := k.most.Load(), max(s.others, s.budget.held.Load()-1)
	if most == 0 && s.tries > 0 { // otherwise see makeRoom
		return false
	}
	return s.tries < mostDenied && k.denied.Load() < fewDenied && others >= fewestOthers &&
		2*others >= most
}

// makeRoom waits, after a refused OPEN, until its likely cause may be gone. It returns false if
// there is nothing to wait for. others says that something is open on the host, such as
// directories.
func (s *slot) makeRoom(ctx context.Context, err error, others bool) bool {
	k := s.budget.crowd(endpoint.IsOfSource(err))
	if s.tries++; s.tries > 1 && !others { // many files may wait for one listing
		k.vain.Add(1)
	}
	if k.most.Load() == 0 {
		return pace.Sleep(ctx, crowdedPause) == nil // the replies about others are in flight
	}
	n, known := s.budget.handles.shrink()
	if n == 0 && !known && s.others == 0 && !others && s.tries > 1 {
		return false
	}
	s.lost += n
	if n == 0 { // a listing is open, or the others have been closed by now
		return pace.Sleep(ctx, max(crowdedPause, s.budget.Trip)) == nil
	}
	s.held = false // take waits until another file has been closed
	s.budget.held.Add(-1)
	// and every refused file has had the time to give up its handle
	return pace.Sleep(ctx, min(crowdedPause, time.Millisecond<<s.tries)) == nil
}

// Hold takes a handle while f opens one more file on the target's host, and repeats f if it was
// refused because too many files are open. b is nil for a single file.
func (b *Budget) Hold(ctx context.Context, f func() error) error {
	var s slot
	defer s.free()
	for {
		s.take(b)
		err := f()
		switch {
		case err == nil:
			s.opened(false)
			return nil
		case !s.crowded(err) || !s.makeRoom(ctx, err, false):
			s.inVain(err)
			return err
		}
	}
}

// inVain ends the waiting of a file that was refused for another reason than crowding.
func (s *slot) inVain(err error) {
	if err == nil || s.tries == 0 || s.tries == waitedInVain {
		return
	}
	k, lost := s.budget.crowd(endpoint.IsOfSource(err)), s.lost
	if k.denied.Add(1); k.limited.Load() { // handles that nobody held stay removed
		lost = min(lost, int64(s.tries))
	}
	s.budget.handles.grow(lost)
	s.tries, s.lost = waitedInVain, 0
}

// startOver forgets that a temporary name was refused, when the target is opened instead: that this
// succeeds says nothing about a limit, and if it is refused, that may be one.
func (s *slot) startOver() {
	s.inVain(fs.ErrPermission)
	s.tries, s.named = 0, false
}

// A gate lets a file that may be what ends the connections (see pools.Losses) be tried with no other
// in progress. It waits until those that have begun have ended, and others begin once it is lost
// again. Of several the first goes on until it has ended, so that not each of them uses up attempts,
// unless nothing else has got on so far: then the next one may.
//
// No wait can last: who waits here holds no handle, memory, slot or turn, only its own journal, its
// worker's place and its directory's count, and those that it waits for have theirs. They wait for
// nobody here, since none is tried alone before they have ended. Their waits elsewhere end with the
// run, so this needs no context.
type gate struct {
	mu       sync.Mutex
	opened   sync.Cond
	files    int     // that have begun, and are not suspected
	suspects []*Copy // the others; it is the first one's turn
	trying   bool    // an attempt at that is under way
}

// pass waits until an attempt at a file may begin. A single file has no budget and does not wait.
func (b *Budget) pass(c *Copy) (end func()) {
	if b == nil {
		return func() {}
	}
	g := &b.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	suspected, idle := false, false
	for i := range c.known.ends {
		l := &c.known.ends[i].Losses
		suspected, idle = suspected || l.Suspected, idle || l.Idle
	}
	if !suspected {
		if !c.slot.passed {
			g.leave(c) // it may have been suspected until it got on
			c.slot.passed = true
			g.files++
		}
		for g.trying {
			g.opened.Wait()
		}
		return func() {}
	}
	if idle || c.slot.passed {
		g.leave(c)
	}
	if !slices.Contains(g.suspects, c) {
		g.suspects = append(g.suspects, c)
	}
	for g.files > 0 || g.suspects[0] != c {
		g.opened.Wait()
	}
	g.trying = true
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.trying = false
		g.opened.Broadcast()
	}
}

// passedAll ends pass's waits for a file after its last attempt.
func (b *Budget) passedAll(c *Copy) {
	if b != nil {
		b.gate.mu.Lock()
		defer b.gate.mu.Unlock()
		b.gate.leave(c)
	}
}

// leave forgets a file. The caller holds the lock.
func (g *gate) leave(c *Copy) {
	if c.slot.passed {
		c.slot.passed = false
		g.files--
	}
	if i := slices.Index(g.suspects, c); i >= 0 {
		g.suspects = slices.Delete(g.suspects, i, i+1)
	}
	g.opened.Broadcast()
}
