package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// A striper opens further handles of a file while it is copied, as long as that helps. Handles are
// opened by path, so each may be one of another file that has taken the path meanwhile: what they
// say of their file is compared when they join and when they end.
type striper struct {
	ctx     context.Context
	session *session
	pool    *pool.Pool
	stripes private.Stripes
	first   *usftp.File
	flag    int
	from    int64 // where the transfer began, and so the size that the file had
	size    int64

	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	lanes  []lane
	known  *usftp.FileStat // what the first handle said of the file, nil before it was asked
	broken error           // what was wrong with a handle that took part
	cut    bool            // the connection of one was lost
}

// lane is a further handle of the file.
type lane struct {
	file    *usftp.File
	on      *pool.Session
	release func()
}

// stripe starts to watch a transfer that takes its lanes from the striper's stripes. stop ends that
// and closes what was opened.
func (s *session) stripe(c *fileCopy, first *usftp.File, flag int, from, size int64) *striper {
	st := &striper{ctx: c.ctx, session: s, pool: s.host.Pool, stripes: private.NewStripes(first),
		first: first, flag: flag, from: from, size: size}
	ctx, cancel := context.WithCancel(c.ctx)
	st.cancel = cancel
	st.work.Go(func() { st.scale(ctx) })
	return st
}

func (s *striper) stop() { s.part()() }

// part is stop as a [step]. Its error is that of any handle that took part: CLOSE is where a server
// may report that it could not store what it has acknowledged.
func (s *striper) part() (wait func() error) {
	s.settle()
	for _, l := range s.lanes {
		s.work.Go(func() { s.close(l) })
	}
	s.lanes = nil
	return func() error {
		s.work.Wait()
		return s.broken
	}
}

// settle lets no more handles join.
func (s *striper) settle() {
	s.cancel()
	s.work.Wait()
}

// close closes a handle that no longer takes part.
func (s *striper) close(l lane) {
	err := l.file.Close()
	l.release()
	if err != nil && s.flag != os.O_RDONLY {
		s.note(l, err)
	}
}

// note keeps what was wrong with a handle. One whose connection was lost is not wrong: the others
// have done its part, except for what it had written, of which nobody will say more.
func (s *striper) note(l lane, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pool.Lost(l.file.Client()) {
		s.cut = true
	} else if s.broken == nil {
		s.broken = err
	}
}

// prove makes sure that all handles were of one file, that it is still what it was, and that it is
// what has the path. It is for when the contents are there, and takes a round trip if further
// handles took part, none otherwise.
func (s *striper) prove() error {
	if s.settle(); s.stripes.Joined() == 0 {
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
	reads := s.flag == os.O_RDONLY
	switch {
	case s.broken != nil:
		return s.broken
	case err != nil && !refused(err):
		return err
	case reads && (!s.same(stat, true) || !s.same(named, true)):
		return replaced(err)
	case reads:
		return nil
	case int64(stat.Size) != s.size:
		return notJoined(int64(stat.Size), s.size)
	case named != nil && !s.same(named, true):
		return errReplaced
	}
	if _, syncs := s.first.Client().HasExtension("fsync@openssh.com"); s.cut && syncs {
		// it says what the CLOSE of the lost handle would have said
		_, err := s.first.Async().Sync().WaitContext(s.ctx)
		return err
	}
	return nil
}

// replaced reports that a source that is read over several handles was replaced.
func replaced(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return changedf("another file has taken its place")
	}
	return err
}

// proveLanes asks some handles what they say of their file, and notes whose is another. The file is
// complete at the end of the transfer.
func (s *striper) proveLanes(lanes []lane, complete bool) {
	var asking sync.WaitGroup
	for _, l := range lanes {
		asking.Go(func() {
			stat, err := l.file.Async().Stat().WaitContext(s.ctx)
			switch {
			case err != nil:
			case s.same(stat, complete):
				return
			case s.flag == os.O_RDONLY:
				err = replaced(nil)
			default:
				err = notJoined(int64(stat.Size), s.size)
			}
			s.note(l, err)
		})
	}
	asking.Wait()
}

// same reports whether what a handle says of its file is what the first one said. While a file is
// written its size and time change; that its handles are of one file shows in that they see each
// other's data. Once complete it has its size.
func (s *striper) same(stat *usftp.FileStat, complete bool) bool {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if known == nil || stat == nil ||
		known.HasOwner() && stat.HasOwner() && (known.UID != stat.UID || known.GID != stat.GID) ||
		known.HasMode() && stat.HasMode() && known.Mode != stat.Mode {
		return false
	}
	if s.flag != os.O_RDONLY {
		return !complete || int64(stat.Size) == s.size
	}
	return known.HasSize() && stat.HasSize() && known.HasTimes() && stat.HasTimes() &&
		known.Size == stat.Size && known.Mtime == stat.Mtime
}

// know asks the first handle, once, what it says of its file.
func (s *striper) know(ctx context.Context) bool {
	s.mu.Lock()
	known := s.known != nil
	s.mu.Unlock()
	if known {
		return true
	}
	stat, err := s.first.Async().Stat().WaitContext(ctx)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = stat
	}
	return true
}

// join opens the file on each session that there is and each that comes.
func (s *striper) join(ctx context.Context) {
	known := make(map[*pool.Session]bool)
	for ctx.Err() == nil {
		sessions, changed := s.pool.Sessions()
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

// joinOne opens the file once more, makes sure that it is the same one, and has it take part.
func (s *striper) joinOne(ctx context.Context, on *pool.Session) {
	// neither created nor truncated
	f, err := on.WithContext(ctx).OpenFile(s.first.Name(), s.flag, 0)
	if err != nil {
		return // the host may not let it be open twice
	}
	f = f.WithContext(s.ctx)
	if !s.isSame(ctx, f) || s.flag != os.O_RDONLY && !s.sees(ctx, f) || !s.stripes.Join(f) {
		f.Close()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes = append(s.lanes, lane{f, on, s.pool.Use(on)})
}

// isSame asks a handle, and the first one once, what they say of their file. By handle, because the
// path may name another file by now.
func (s *striper) isSame(ctx context.Context, f *usftp.File) bool {
	looking := f.Async().Stat()
	if !s.know(ctx) {
		return false
	}
	stat, err := looking.WaitContext(ctx)
	return err == nil && s.same(stat, false)
}

// sees waits until another handle has written something, and reports whether this one sees it.
// Servers in front of object stores keep apart what each handle writes.
func (s *striper) sees(ctx context.Context, f *usftp.File) bool {
	const most = 8 // questions in a round trip: an answer of "not yet" is not waited for
	ticker := time.NewTicker(max(s.session.trip/most, 10*time.Millisecond))
	defer ticker.Stop()
	decided := make(chan bool, 1)
	for asked := make(chan struct{}, 2*most); ; {
		select {
		case asked <- struct{}{}:
			moved := s.stripes.Moved()
			f.Async().Stat().Then(func(info *usftp.FileStat, err error) {
				<-asked
				seen := err == nil && int64(info.Size) > s.from
				if err == nil && moved == 0 && !seen {
					return
				}
				if err == nil && !seen {
					s.session.host.Quirks.Separate.Store(true)
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
		case <-ticker.C: // there is nothing to see yet
		case <-ctx.Done():
			return false
		}
	}
}

// errNotJoined reports that a file that was written over several handles is not whole.
var errNotJoined = errors.New("the host does not combine what is written over several connections")

func notJoined(size, want int64) error {
	return fmt.Errorf("%w: it has %d bytes and should have %d; use a single connection (--connections=1 --streams=1)", errNotJoined, size, want)
}
