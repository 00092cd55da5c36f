package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/server/internal/lograte"
	"github.com/usftp/usftp/wire"
)

// Options limit a session and set its policy. A nil *Options is valid, and so is the zero value of
// every field.
type Options struct {
	Policy

	// MaxHandles limits the files and directories open at once: 1024 by default, 65535 at most.
	// OPEN fails beyond that. Clients learn it from limits@openssh.com.
	MaxHandles int

	// OpenFiles, if not nil, limits the same over all sessions that share it. Clients learn it if it
	// is less.
	OpenFiles *OpenFiles

	// MaxMemory limits, in bytes, the file contents being moved for the session: 2.5 MiB by
	// default, at least 1 MiB. A session that reaches all its other limits needs about 1 MiB more.
	MaxMemory int

	// Pool lends buffers. Sessions of one server should share one; nil gives the session its own.
	Pool *Pool

	// Work limits expensive operations. Sessions of one server should share one; nil gives the
	// session its own.
	Work *Work

	// DraftSymlinks suits clients that send the two paths of SYMLINK in the order of draft-02,
	// section 6.10, the link's own path first. Nearly all send the target first, as OpenSSH does.
	DraftSymlinks bool

	// Activity, when not nil, records whether the backend is busy. Sessions may share one.
	Activity *Activity

	// Events, if not nil, gets an event for each file, change and refusal, before any limit. It is
	// called by several goroutines at once, and the request concerned waits for it.
	Events func(Event)

	// Gate, if not nil, is asked before changes.
	Gate Gate

	// Hashes is [Reporter].Hashes.
	Hashes bool

	// Logger gets the same events as lines, limited for refusals; nil logs nothing.
	Logger *slog.Logger
}

// Limits that need no option: they cost little memory, and no honest client comes near them.
const (
	maxPending      = 4096      // requests that have arrived and are not done
	maxPendingPaths = 256       // of these, requests that name paths
	maxShort        = 256 << 10 // bytes of short replies that the client has not taken
	maxRunning      = 64        // requests that run at once
	maxSpares       = 128       // requests kept for reuse
	maxIdlers       = 4         // workers kept for reuse, see session.idlers
)

// patience is the time that the reader may take for one request before another reader takes over;
// the actual delay is between one and two times this.
const patience = 2 * time.Millisecond

// afterSlow is the number of requests handed out at once after one that took longer than patience.
const afterSlow = 256

// session is one conversation with a client.
type session struct {
	view    *View
	draft   bool // SYMLINK has the link's own path first
	stream  io.Closer
	log     *slog.Logger
	faults  *slog.Logger // of the machine; see refused
	pool    *Pool
	costly  *Work
	active  *Activity
	relay   *relay // nil if the stream is no pipe
	out     output
	reports *Reporter
	ctx     context.Context // of handlers
	cancel  context.CancelFunc
	limits  wire.LimitsReply
	maxOpen int
	open    *OpenFiles // over all sessions of the user
	maxMem  int

	parallel bool // there is more than one processor

	mu        sync.Mutex
	room      sync.Cond // there may be room for the reader's packet
	over      sync.Cond // the session may be over
	schedule  schedule
	handles   handleTable
	spare     *request // requests kept for reuse
	spares    int
	seq       uint64
	pending   int          // requests that have arrived and are not done
	memory    int          // bytes charged
	short     atomic.Int64 // bytes of short replies that have not been sent
	answering atomic.Int32 // running requests that are done, but whose replies are being sent
	workers   int
	idlers    *worker // workers kept for reuse; none has a goroutine
	begin     func()  // beginWork; made once, as each go statement with arguments makes garbage
	idle      bool    // no waiting request may start until something changes
	eof       bool    // the client sends no more
	closed    bool    // the session is being ended
	ended     bool    // nothing more will be sent
	err       error
	handedOut int // requests to hand out before the reader runs some itself again

	// State of the watch over the reader.
	reading  *reader // the current reader
	busy     bool
	watching bool
	progress uint64
	seen     uint64
	timer    *time.Timer
}

// Serve answers a client's requests on stream until the client closes it or ctx ends, and closes
// the stream. It returns nil if the client left in order, between two packets and with every
// request answered, and ctx's cause if ctx ended.
//
// Serve returns after the last of the backend's methods has, and after closing all open files.
// Options may be nil. If one of the backend's methods panics, or a function of the options, the
// session ends in the same way, and then Serve panics, with an error that holds the value and the
// stack. Other sessions go on if the caller recovers that, as package sshd does.
func Serve(ctx context.Context, stream io.ReadWriteCloser, backend FS, opts *Options) error {
	opts = cmp.Or(opts, &Options{})
	defer stream.Close()
	if backend == nil {
		return errors.New("sftp server: there is no backend")
	}
	view, err := NewView(backend, &opts.Policy)
	if err != nil {
		return err
	}
	s := newSession(ctx, stream, view, opts)
	defer s.cancel()
	in := &input{r: stream, buf: make([]byte, inputSize), pool: s.pool, lease: s.leasePacket}
	stop := context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	defer stop()
	go (&reader{session: s, in: in}).begin()
	err = s.wait()
	if p, ok := err.(*panicked); ok {
		panic(p)
	}
	return err
}

func newSession(ctx context.Context, stream io.ReadWriteCloser, view *View,
	opts *Options) *session {
	s := &session{
		view:    view,
		draft:   opts.DraftSymlinks,
		stream:  stream,
		log:     lograte.Cut(opts.Logger),
		faults:  lograte.ByLine(lograte.Cut(opts.Logger), lograte.New(faultLines)),
		active:  opts.Activity,
		pool:    cmp.Or(opts.Pool, &Pool{}),
		costly:  cmp.Or(opts.Work, &Work{}),
		maxOpen: bounded(opts.MaxHandles, 1024, 1, 65535),
		open:    opts.OpenFiles,
		maxMem:  bounded(opts.MaxMemory, 2560<<10, 1<<20, 1<<30),
	}
	if p, ok := stream.(*pipes); ok {
		s.relay = newRelay(p.out)
	}
	s.reports = &Reporter{Events: opts.Events, Gate: opts.Gate, Hashes: opts.Hashes,
		Logger: opts.Logger, Protocol: "sftp"}
	s.view.reports = s.reports
	s.parallel = runtime.GOMAXPROCS(0) > 1
	s.ctx, s.cancel = context.WithCancel(view.WithWork(ctx, s.costly))
	s.begin = s.beginWork
	s.room.L, s.over.L = &s.mu, &s.mu
	s.out.w, s.out.pool, s.out.sent = stream, s.pool, s.sent
	s.out.ended.L = &s.out.mu
	s.limits = wire.LimitsReply{
		MaxPacket:      wire.MaxPacket,
		MaxRead:        wire.MaxData,
		MaxWrite:       wire.MaxData,
		MaxOpenHandles: uint64(min(s.maxOpen, max(1, s.open.Most()))),
	}
	s.timer = time.AfterFunc(time.Hour, s.watch)
	s.timer.Stop()
	return s
}

func bounded(value, standard, least, most int) int {
	if value == 0 {
		return standard
	}
	return min(max(value, least), most)
}

// wait waits for the session to end, and cleans up.
func (s *session) wait() error {
	s.mu.Lock()
	for !s.closed && !(s.eof && s.pending == 0) {
		s.over.Wait()
	}
	if !s.closed {
		s.workers++
		go s.drain()
	}
	for s.schedule.running > int(s.answering.Load()) || !s.ended {
		s.over.Wait()
	}
	s.timer.Stop()
	defer s.mu.Unlock()
	s.awaitWriters()
	if s.relay != nil && !s.writing() {
		s.relay.close()
	}
	for _, r := range s.schedule.all() {
		if r.own != nil {
			s.memory -= r.own.Charge
			r.own.Release()
			r.own = nil
		}
	}
	for _, slot := range s.handles.slots {
		if slot.h != nil { // nobody else is left to use it
			s.closeLast(slot.h)
		}
	}
	s.reports.end()
	return s.err
}

// drain sends the last replies, and ends the session.
func (s *session) drain() {
	err := s.out.drain()
	if err != nil {
		err = fmt.Errorf("sftp server: sending replies: %w", err)
	}
	s.end(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveWork()
}

// writerGrace is the time that an ending session waits for a Write to the closed stream. On some
// streams, including standard output, Close does not interrupt a Write; it is then left alone, and
// touches nothing when it returns.
const writerGrace = time.Second

// writing reports whether anybody may still be sending; the caller holds the lock.
func (s *session) writing() bool { return s.workers > 0 || s.schedule.running > 0 }

// awaitWriters waits for those who are still sending; the caller holds the lock.
func (s *session) awaitWriters() {
	if !s.writing() {
		return
	}
	late := false
	timer := time.AfterFunc(writerGrace, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.over.Broadcast()
	})
	defer timer.Stop()
	for s.writing() && !late {
		s.over.Wait()
	}
}

// end ends the session: nothing more is read, started or sent. The first error wins.
func (s *session) end(err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.err = err
	s.room.Broadcast()
	s.over.Broadcast()
	s.mu.Unlock()
	s.cancel()
	s.out.close()
	s.mu.Lock()
	s.ended = true
	s.over.Broadcast()
	s.mu.Unlock()
	s.stream.Close()
}

// flush sends the queued replies.
func (s *session) flush() {
	if err := s.out.flush(); err != nil && err != errOutputClosed {
		s.end(fmt.Errorf("sftp server: sending replies: %w", err))
	}
}

// answer flushes for a running request, whose reply is among those queued.
func (s *session) answer() {
	s.answering.Add(1)
	defer s.answering.Add(-1)
	s.flush()
}

// sent returns a reply's charge to the budget, which may let requests and the reader continue.
func (s *session) sent(charge, short int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory -= charge
	s.short.Add(int64(-short))
	s.idle = false
	s.room.Broadcast()
	s.addWorker()
}

// leasePacket waits for room for a long packet; nil means that the session is over. It leaves room
// for one reply: packets may wait for an earlier READ on their handle, and would wait forever if
// they held all the memory that it needs.
func (s *session) leasePacket(n int) *buffer.Block {
	charge := bufferSize(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	full := func() bool { return !s.closed && s.memory+charge > s.maxMem-largeBuffer }
	if full() { // of replies that the reader has not sent yet, perhaps
		s.mu.Unlock()
		s.flush()
		s.mu.Lock()
	}
	for full() {
		s.room.Wait()
	}
	if s.closed {
		return nil
	}
	s.memory += charge
	b := s.pool.lease(n)
	b.Charge = charge
	return b
}

// releasePacket releases a long packet's buffer. The caller does not hold the lock.
func (s *session) releasePacket(b *buffer.Block) {
	if b != nil {
		charge := b.Charge
		b.Release()
		s.sent(charge, 0)
	}
}

// addWorker starts a worker if there is something to do; the caller holds the lock.
func (s *session) addWorker() {
	if s.idle || s.closed || s.schedule.waiting == 0 || s.workers >= maxRunning {
		return
	}
	s.workers++
	go s.begin()
}

// beginWork runs on a new worker's goroutine.
func (s *session) beginWork() {
	s.mu.Lock()
	r := s.take()
	if r == nil {
		s.leaveWork()
		s.mu.Unlock()
		return
	}
	w := s.idlers
	if w != nil {
		s.idlers = w.next
	} else {
		w = &worker{}
	}
	s.mu.Unlock()
	s.work(w, r)
}

// take starts a request that may run, and returns it, or nil. The caller holds the lock.
func (s *session) take() *request {
	if s.idle || s.closed || s.schedule.waiting == 0 {
		return nil
	}
	r := s.schedule.next(s.maxMem - s.memory)
	if r == nil {
		s.idle = true
		return nil
	}
	s.startRequest(r)
	return r
}

func (s *session) startRequest(r *request) {
	s.schedule.start(r)
	if r.charge > 0 {
		s.memory += r.charge
		r.reply = s.pool.lease(r.charge)
		r.reply.Charge = r.charge
	}
}

// work runs requests until none may start.
func (s *session) work(w *worker, r *request) {
	for r != nil {
		w.execute(s, r)
		s.answer()
		s.mu.Lock()
		s.schedule.done(r)
		s.finish(r)
		if r = s.take(); r != nil {
			s.addWorker() // more may have become ready along with it
		} else {
			s.leaveWork()
			if s.workers < maxIdlers {
				w.next, s.idlers = s.idlers, w
			}
		}
		s.mu.Unlock()
	}
}

// leaveWork records that a worker has nothing left to do. The caller holds the lock.
func (s *session) leaveWork() {
	s.workers--
	if s.closed {
		s.over.Broadcast()
	}
}

// finish removes a request that has been answered; the caller holds the lock.
func (s *session) finish(r *request) {
	s.pending--
	s.idle = false
	s.recycle(r)
	s.room.Broadcast()
	if s.eof || s.closed {
		s.over.Broadcast()
	}
}

// recycle keeps a request for reuse; the caller holds the lock.
func (s *session) recycle(r *request) {
	*r = request{}
	if s.spares < maxSpares {
		r.next = s.spare
		s.spare = r
		s.spares++
	}
}

// Activity records whether the backend is busy with requests of some sessions. Code that closes
// idle connections uses it to recognize long work that moves no data over the connection, such as
// copying a large file on the server. The zero Activity is ready for use; it is safe for concurrent
// use.
type Activity struct {
	running atomic.Int64
	last    atomic.Int64 // in ns since started
}

// started is what times are counted from, so that no jump of the clock changes them.
var started = time.Now()

// Running returns the number of requests that the backend is working on.
func (a *Activity) Running() int { return int(a.running.Load()) }

// Last returns when a request last ended, or the zero time if none has. No jump of the clock changes
// how long ago that is.
func (a *Activity) Last() time.Time {
	if last := a.last.Load(); last != 0 {
		return started.Add(time.Duration(last))
	}
	return time.Time{}
}

// Begin notes that a request, or a program such as scp, is at work until End. Both do nothing for a
// nil Activity.
func (a *Activity) Begin() {
	if a != nil {
		a.running.Add(1)
	}
}

// End ends what Begin began.
func (a *Activity) End() {
	if a != nil {
		a.last.Store(int64(time.Since(started)))
		a.running.Add(-1)
	}
}
