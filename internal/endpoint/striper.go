package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/wire"
)

// Striping says how a file is read or written over several connections.
type Striping struct {
	Pool   *pool.Pool
	Trip   time.Duration // the round trip
	Quirks *quirks.Quirks

	// Spare returns a function that reports whether this machine had processor time to spare since
	// its last call; see [machine.NewSpare].
	Spare func(trip time.Duration) func() bool

	Flag int   // how the file is opened, without os.O_CREATE and os.O_TRUNC
	From int64 // where the transfer begins
	Size int64 // of the whole file
	Over int64 // of an old file that is overwritten
}

// A Striper opens further handles of a file while it is copied, as long as that helps. Handles are
// opened by path, so each may refer to another file that has taken the path meanwhile. Therefore
// their attributes are compared when they join and at the end.
type Striper struct {
	private.Stripes
	Striping
	ctx   context.Context
	first *usftp.File
	proof fileProof

	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	lanes  []lane
	broken error // the first failure of a handle that took part
	lost   bool  // the connection of a handle was lost
}

// A lane is a further handle of the file.
type lane struct {
	file    *usftp.File
	on      pools.Session
	release func()
}

// NewStriper starts to open handles for a transfer over its Stripes. Stop ends that and closes the
// handles.
func NewStriper(ctx context.Context, first *usftp.File, how Striping) *Striper {
	s := &Striper{Stripes: private.NewStripes(first), Striping: how, ctx: ctx, first: first,
		proof: fileProof{first: first, source: how.Flag == os.O_RDONLY, whole: max(how.Size, how.Over)}}
	ctx, s.cancel = context.WithCancel(ctx)
	s.work.Go(func() { autoscale(ctx, s) })
	return s
}

// Stop ends a transfer that is not complete.
func (s *Striper) Stop() { s.finish(false)() }

// finish ends a transfer in two halves. It returns an error of any handle that took part: a server
// may report only at CLOSE that it could not store data it had acknowledged.
func (s *Striper) finish(complete bool) (wait func() error) {
	s.stopJoining()
	for _, l := range s.lanes {
		s.work.Go(func() { s.close(l, complete) })
	}
	s.lanes = nil
	return func() error {
		s.work.Wait()
		return s.broken
	}
}

// stopJoining stops further handles from joining.
func (s *Striper) stopJoining() {
	s.cancel()
	s.work.Wait()
}

// close closes a handle. While the file is incomplete, that must not make it appear.
func (s *Striper) close(l lane, complete bool) {
	end := l.file.Abandon
	if complete {
		end = l.file.Close
	}
	err := end()
	l.release()
	if err != nil && s.Flag != os.O_RDONLY {
		s.note(l, err)
	}
}

// note keeps the first failure of a handle. A lost connection is no failure: other handles have
// done its part, except for the data it had already written, whose errors are lost with it.
func (s *Striper) note(l lane, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pool.Lost(l.file.Client()) {
		s.lost = true
	} else if s.broken == nil {
		s.broken = err
	}
}

// wrote says how long the written file is: a source may have grown or shrunk meanwhile.
func (s *Striper) wrote(size int64) {
	s.stopJoining()
	s.proof.whole = max(size, s.Over)
}

// Prove makes sure that all handles referred to one file, that the file is intact, and that it
// still has the path. It is called once the contents are complete. It takes a round trip if further
// handles took part, otherwise none.
func (s *Striper) Prove() error {
	if s.stopJoining(); s.Joined() == 0 {
		return nil
	}
	path := s.first.Client().Async().Stat(s.first.Name())
	end := s.first.Async().Stat()
	s.proveLanes(s.lanes, true)
	stat, err := end.WaitContext(s.ctx)
	if err != nil {
		return err
	}
	var named *usftp.FileStat
	info, err := path.WaitContext(s.ctx)
	if err == nil {
		named = info.Sys().(*usftp.FileStat)
	}
	switch {
	case s.broken != nil:
		return s.broken
	case err != nil && !Refused(err):
		return err
	case s.Flag == os.O_RDONLY:
		return s.proof.ofSource(stat, named, err)
	case int64(stat.Size) != s.proof.whole:
		return notJoined(int64(stat.Size), s.proof.whole)
	case named != nil && !s.proof.same(named, true):
		return ErrReplaced
	}
	if _, syncs := s.first.Client().HasExtension(wire.ExtFsync); s.lost && syncs {
		// reports the errors that the lost handle's CLOSE would have reported
		_, err := s.first.Async().Sync().WaitContext(s.ctx)
		return err
	}
	return nil
}

// proveLanes asks each handle for its file's attributes, and notes handles that refer to another
// file. complete says whether the file should be complete.
func (s *Striper) proveLanes(lanes []lane, complete bool) {
	var asking sync.WaitGroup
	for _, l := range lanes {
		asking.Go(func() {
			stat, err := l.file.Async().Stat().WaitContext(s.ctx)
			if err == nil {
				err = s.proof.ofHandle(stat, complete)
			}
			if err != nil {
				s.note(l, err)
			}
		})
	}
	asking.Wait()
}

// join opens the file on each session that exists or is added.
func (s *Striper) join(ctx context.Context) {
	known := make(map[pools.Session]bool)
	for ctx.Err() == nil {
		sessions, changed := pools.OfPool(s.Pool).Sessions()
		for _, on := range sessions {
			if !known[on] {
				known[on] = true
				s.work.Go(func() { s.joinOne(ctx, on) })
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// joinOne opens the file once more, makes sure that it is the same file, and adds the handle to the
// transfer.
func (s *Striper) joinOne(ctx context.Context, on pools.Session) {
	client := private.OfClient(s.first.Client()).Alike(on.Client())
	f, err := client.WithContext(ctx).OpenFile(s.first.Name(), s.Flag, 0)
	if err != nil {
		return // the host may not allow opening it twice
	}
	f = f.WithContext(s.ctx)
	if !s.proof.isSame(ctx, f) || s.Flag != os.O_RDONLY && !s.sees(ctx, f) || !s.Join(f) {
		f.Abandon()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes = append(s.lanes, lane{f, on, pools.OfPool(s.Pool).Use(on)})
}

// sees waits until another handle has written beyond the old end of the file, and reports whether
// this handle sees that data. Servers in front of object stores keep each handle's writes apart.
func (s *Striper) sees(ctx context.Context, f *usftp.File) bool {
	end := max(s.From, s.Over)
	const most = 8 // questions per round trip, so that a "not yet" costs no whole round trip
	ticker := time.NewTicker(max(s.Trip/most, 10*time.Millisecond))
	defer ticker.Stop()
	decided := make(chan bool, 1)
	for asked := make(chan struct{}, 2*most); ; {
		select {
		case asked <- struct{}{}:
			moved := s.Moved()
			f.Async().Stat().Then(func(info *usftp.FileStat, err error) {
				<-asked
				seen := err == nil && int64(info.Size) > end
				if err == nil && s.From+moved <= end && !seen {
					return
				}
				if err == nil && !seen {
					s.Quirks.Separate.Store(true)
				}
				select {
				case decided <- seen:
				default: // the first answer counts
				}
			})
		default:
		}
		select {
		case seen := <-decided:
			return seen
		case <-ticker.C: // nothing to see yet
		case <-ctx.Done():
			return false
		}
	}
}

// A fileProof recognizes the handles of one file by their attributes.
type fileProof struct {
	first  *usftp.File
	source bool  // the file is read, otherwise it is written
	whole  int64 // its size once written; only then is the rest of an old file cut off

	known atomic.Pointer[usftp.FileStat] // the first handle's attributes, nil until it was asked
	moved atomic.Bool                    // a source's handle showed another time
}

// isSame compares a handle's attributes with the first one's. It asks by handle, since the path may
// refer to another file by now.
func (p *fileProof) isSame(ctx context.Context, f *usftp.File) bool {
	looking := f.Async().Stat()
	if !p.know(ctx) {
		return false
	}
	stat, err := looking.WaitContext(ctx)
	return err == nil && p.same(stat, false) && !p.touched(stat)
}

// same reports whether a handle's attributes match the first one's, except for times; see touched.
// While a file is written its size and time change; there, handles of one file are recognized by
// seeing each other's data. Once complete, its size must match.
func (p *fileProof) same(stat *usftp.FileStat, complete bool) bool {
	known := p.known.Load()
	if known == nil || stat == nil ||
		known.HasOwner() && stat.HasOwner() && (known.UID != stat.UID || known.GID != stat.GID) ||
		known.HasMode() && stat.HasMode() && known.Mode != stat.Mode {
		return false
	}
	if !p.source {
		return !complete || int64(stat.Size) == p.whole
	}
	return known.HasSize() && stat.HasSize() && known.HasTimes() && stat.HasTimes() &&
		known.Size == stat.Size
}

// touched reports whether a source's time differs from the time that the first handle showed.
func (p *fileProof) touched(stat *usftp.FileStat) bool {
	return p.source && p.known.Load().Mtime != stat.Mtime
}

// know asks for the first handle's attributes, once.
func (p *fileProof) know(ctx context.Context) bool {
	if p.known.Load() != nil {
		return true
	}
	stat, err := p.first.Async().Stat().WaitContext(ctx)
	if err == nil {
		p.known.CompareAndSwap(nil, stat)
	}
	return err == nil
}

// ofHandle returns an error if the attributes belong to another file than the first handle's.
// complete says whether the file should be complete.
func (p *fileProof) ofHandle(stat *usftp.FileStat, complete bool) error {
	switch {
	case p.same(stat, complete):
		if p.touched(stat) {
			p.moved.Store(true)
		}
		return nil
	case p.source:
		return replaced(nil)
	}
	return notJoined(int64(stat.Size), p.whole)
}

// ofSource compares the attributes of the first handle and the path at the end with the handle's
// first ones. If even the handle's own time has changed, times no longer tell files apart. The data
// read must then be compared with the contents, and the error is ErrTouched.
func (p *fileProof) ofSource(first, named *usftp.FileStat, err error) error {
	switch {
	case !p.same(first, true) || !p.same(named, true):
		return replaced(err)
	case !p.touched(first) && (p.moved.Load() || p.touched(named)):
		return replaced(nil)
	case p.touched(first):
		return ErrTouched
	}
	return nil
}

// replaced returns the error for a source that was replaced while it was read over several handles.
func replaced(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return ErrReplaced
	}
	return err
}

var (
	// ErrTouched reports that only a file's modification time changed.
	ErrTouched = errors.New("modification time changed")

	// errNotJoined reports that a file written over several handles is incomplete.
	errNotJoined = errors.New("the host does not combine what is written over several connections")
)

func notJoined(size, want int64) error {
	return fmt.Errorf("%w: it has %d bytes and should have %d; use a single connection "+
		"(pool.ConnectConfig.Connections and Streams of 1)", errNotJoined, size, want)
}
