package objectfs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/usftp/usftp/internal/buffer"
)

// Memory limits the memory that all uploads and downloads of a process hold together.
//
// Parts take memory as their contents arrive, so that many slow uploads run at once, with half a
// part each. A part that has begun may need more before it can be sent. So memory is granted only
// while all files could still get enough, one after the other; and parts begin only up to a little
// more than fits, or all would wait for the fullest one. Many files are short: they get by with one
// block each, so that hundreds of them can be stored at once.
type Memory struct {
	short   *semaphore.Weighted // bytes of files of one block
	ahead   *semaphore.Weighted // bytes read ahead
	bytes   int64               // for parts
	longest int64               // no part is longer
	blocks  buffer.Pool
	writing holders // uploads
	reading holders // sources

	mu       sync.Mutex
	free     int64
	sending  int64 // held by parts being sent, which nothing keeps from becoming free
	begun    int64 // the lengths of the parts that hold memory
	accounts map[*account]struct{}
	waiting  []*request
}

// account is the memory held by the parts of a file, except parts being sent. The lock of Memory
// guards it.
type account struct {
	held  int64
	claim int64 // with this much, one of the parts can be sent
}

// request asks for memory for a part.
type request struct {
	account *account
	bytes   int64
	begins  int64 // the length of the part, if it holds no memory yet
	claim   int64 // of the account from then on
	needed  bool  // another part holds memory, and is only sent once this one begins
	granted chan struct{}
}

// unfinished is how many parts of a file may be in memory that are neither complete nor being sent.
const unfinished = 2

// NewMemory returns a limit of bytes for parts, at least 32 MiB, of half as much for reading ahead,
// and of an eighth for short files. A part takes at most a third of bytes, which limits the size of
// files: with 128 MiB to 375 GB, with 1 GiB to 2.5 TB, with 4 GiB to the 5 TiB that S3 allows.
func NewMemory(bytes int64) *Memory {
	bytes = max(bytes, 32<<20)
	longest := standard.first
	for longest < standard.most && longest*2 <= bytes/3 {
		longest *= 2
	}
	return newMemory(bytes, longest)
}

func newMemory(bytes, longest int64) *Memory {
	return &Memory{
		short:    semaphore.NewWeighted(bytes / 8),
		ahead:    semaphore.NewWeighted(bytes / 2),
		bytes:    bytes,
		longest:  longest,
		free:     bytes,
		accounts: map[*account]struct{}{},
	}
}

var errFar = errors.New("for a minute others used the memory that it takes to go on where the" +
	" file was not yet complete before: upload it again, in order")

// await waits until a request that ask has queued is granted.
func (m *Memory) await(ctx context.Context, r *request) error {
	done := make(chan struct{})
	defer close(done)
	go m.writing.watch(done)
	select {
	case <-r.granted:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.waiting, r)
	if i < 0 {
		return nil
	}
	m.waiting = slices.Delete(m.waiting, i, i+1)
	m.grant() // others may have waited behind it
	return context.Cause(ctx)
}

// ask grants a request and returns true, or queues it.
func (m *Memory) ask(r *request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Granting it makes no other request safe.
	if m.give(r, !slices.ContainsFunc(m.waiting, (*request).inTurn)) {
		return true
	}
	m.waiting = append(m.waiting, r)
	return false
}

// grant grants all waiting requests that it can. Parts begin in the order in which they ask.
func (m *Memory) grant() {
	first := true
	m.waiting = slices.DeleteFunc(m.waiting, func(r *request) bool {
		given := m.give(r, first)
		first = first && (given || !r.inTurn())
		return given
	})
}

// inTurn reports whether a request has to wait its turn, behind earlier ones like it.
func (r *request) inTurn() bool { return r.begins > 0 && !r.needed }

// give grants a request if that is safe. first says that no other request has its turn before it.
func (m *Memory) give(r *request, first bool) bool {
	if r.inTurn() && (!first || m.begun+r.begins > m.bytes+m.bytes/4) || !m.safe(r) {
		return false
	}
	m.free -= r.bytes
	m.begun += r.begins
	*r.account = r.after()
	m.accounts[r.account] = struct{}{}
	close(r.granted)
	return true
}

// after returns the account after the request is granted.
func (r *request) after() account {
	return account{r.account.held + r.bytes, max(r.account.claim, r.claim)}
}

// safe reports whether all files could still get the memory they need, one after the other, once a
// request is granted.
func (m *Memory) safe(r *request) bool {
	if r.bytes > m.free {
		return false
	}
	left := m.free - r.bytes + m.sending
	if left >= unfinished*m.longest { // nobody needs more
		return true
	}
	all := []account{r.after()}
	for a := range m.accounts {
		if a != r.account {
			all = append(all, *a)
		}
	}
	slices.SortFunc(all, func(a, b account) int {
		return cmp.Compare(a.claim-a.held, b.claim-b.held)
	})
	for _, a := range all {
		if a.claim-a.held > left {
			return false
		}
		left += a.held
	}
	return true
}

// sends records that a part is being sent, and needs no more memory.
func (m *Memory) sends(a *account, p *part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(a, p.held)
	m.sending += p.held
	m.grant()
}

// release returns the memory of a part.
func (m *Memory) release(a *account, p *part) {
	if p.short {
		m.short.Release(blockSize)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.sending {
		m.sending -= p.held
	} else {
		m.settle(a, p.held)
	}
	if p.held > 0 {
		m.begun -= p.length
	}
	m.free += p.held
	m.grant()
}

func (m *Memory) settle(a *account, bytes int64) {
	if a.held -= bytes; a.held == 0 {
		delete(m.accounts, a)
	}
}

// grow acquires memory for a part, up to an offset within it. The caller holds the lock, which is
// released while it waits.
func (w *writer) grow(p *part, to int64) error {
	to = min((to+blockSize-1)/blockSize*blockSize, p.length)
	if to <= p.held {
		return nil
	}
	m := w.fs.memory
	if p.start == 0 && p.held == 0 && to == blockSize && p.length > to && len(w.parts) == 0 &&
		m.short.TryAcquire(blockSize) {
		p.short, p.held = true, to
		return nil
	}
	r := &request{account: &w.account, bytes: to - p.held, granted: make(chan struct{})}
	if p.short {
		r.bytes = to
	}
	if p.short || p.held == 0 {
		w.begins(p, r)
	}
	if err := w.acquire(r); err != nil {
		return err
	}
	if p.short {
		p.short = false
		m.short.Release(blockSize)
	}
	p.held = to
	return nil
}

// begins completes the request with which a part begins. Until one of two parts is full the file
// needs both; later parts may be longer.
func (w *writer) begins(p *part, r *request) {
	_, next := w.fs.layout.span(w.fs.layout.at(p.start) + 1)
	r.begins, r.claim = p.length, unfinished*next
	for _, other := range w.parts {
		if other != p && !other.sending && !other.short {
			r.needed, r.claim = true, p.length+other.length
		}
	}
}

// acquire takes memory. If there is none it waits, without the lock, until the session ends. It
// waits less for more than the file was to need when its unfinished part began: files that wait for
// that could wait for each other forever.
func (w *writer) acquire(r *request) error {
	ctx, more := w.session, r.needed && w.account.claim < r.claim
	if w.fs.memory.ask(r) {
		return nil
	}
	if more {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, mostIdle, errFar)
		defer cancel()
	}
	w.taking = true
	w.mu.Unlock()
	err := w.fs.memory.await(ctx, r)
	w.mu.Lock()
	w.taking = false
	w.changed.Broadcast()
	return err
}

// take adds a part that holds memory up to an offset within it. The caller holds the lock, which is
// released while it waits.
func (w *writer) take(index int, to int64) error {
	start, length := w.fs.layout.span(index)
	p := newPart(start, length, &w.fs.memory.blocks)
	err := w.grow(p, to)
	if err == nil {
		w.parts[index] = p
		w.fs.memory.writing.add(w)
	}
	return err
}

// drop removes a part, and returns its memory. The caller holds the lock.
func (w *writer) drop(index int) {
	p := w.parts[index]
	delete(w.parts, index)
	p.drop()
	if len(w.parts) == 0 {
		w.fs.memory.writing.remove(w)
	}
	w.fs.memory.release(&w.account, p)
}
