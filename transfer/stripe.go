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
)

const (
	// stripeTrip is the shortest round trip over which an SSH channel's window may be what bounds
	// the rate: it carries 4 Gbit/s there. On a shorter one a busy machine is the likelier reason,
	// and more connections would only make it busier.
	stripeTrip = 4 * time.Millisecond

	// stripeAtOnce is the longest round trip over which one window carries a gigabit a second. On
	// most links that is all there is, and more lanes only overflow its queue: 500 MB at 10 ms took
	// 5.4 s over four lanes, 4.6 s over one. So the rate of one is looked at first.
	stripeAtOnce = sshWindow * time.Second / 125e6

	// stripeFor is how long a transfer must still last, by what one window a round trip carries,
	// for logging in again to pay.
	stripeFor = 1500 * time.Millisecond

	// sshWindow is what one channel carries in a round trip: OpenSSH's window, and x/crypto/ssh's.
	sshWindow = 2 << 20
)

// striper opens further handles of a file while it is being copied, as long as that helps. Handles
// are opened by path, so each may be one of another file that has taken the path meanwhile: what
// they say of their file is compared when they join and when they end.
type striper struct {
	run     *run
	pool    *Pool
	stripes private.Stripes
	first   *usftp.File
	path    string // of the file on the host
	flag    int
	from    int64 // where the transfer began, and so the size that the file had
	size    int64
	trip    time.Duration

	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	lanes  []stripeLane
	known  *usftp.FileStat // what the first handle has said of the file, nil before it was asked
	broken error           // what was wrong with a handle that took part
	cut    bool            // the connection of one was lost
}

// stripeLane is a further handle of the file.
type stripeLane struct {
	file *usftp.File
	on   *pooled
}

// worthStriping tells whether a file is so large, and the way so long, that one channel's window
// may be what bounds the rate.
func (r *run) worthStriping(size int64) bool {
	if r.Host.Pool == nil || r.Host.Pool.most() < 2 || r.limiter != nil || r.spreads() ||
		!r.mayStripe() {
		return false
	}
	r.doubtTrip(size)
	return worthStriping(size, r.trip)
}

// doubtfulTrip is how long a way would have to be for it to be asked whether it is longer than
// TCP's handshake has made it look.
const doubtfulTrip = 50 * time.Millisecond

// doubtTrip asks for a sign of life where the round trip is that of TCP's handshake, and short, and
// the file is large: what answers a handshake may stand in front of the long way (proxies, and what
// makes satellite links look fast), while this is answered by the host.
func (r *run) doubtTrip(size int64) {
	if r.trip >= stripeTrip || r.Host.askedAhead() == 0 || !worthStriping(size, doubtfulTrip) {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, time.Second)
	defer cancel()
	trip := time.Duration(0)
	for range 2 { // the shorter of the two: a host may be busy for a moment
		began := time.Now()
		if r.Host.Client.Ping(ctx) != nil {
			return
		}
		took := time.Since(began)
		if took < stripeTrip {
			return
		}
		if trip == 0 || took < trip {
			trip = took
		}
	}
	r.trip = trip
}

// mayStripe tells whether the host is known to be none that a file may be open on several times:
// one that counts how often a file is read, or that keeps apart what each handle writes.
func (r *run) mayStripe() bool {
	if r.Direction == Download {
		return !private.OfClient(r.Host.Client).ReadsOnce()
	}
	return !r.line.habits.apart.Load()
}

func worthStriping(size int64, trip time.Duration) bool {
	return trip >= stripeTrip && alone(size, trip) > stripeFor.Seconds()
}

// alone returns how many seconds a file takes that travels one window a round trip.
func alone(size int64, trip time.Duration) float64 {
	return float64(size) / sshWindow * trip.Seconds()
}

// firstWanted returns how many connections are wanted before any rate was seen: as many as the
// window alone makes worth it. A login takes longer than the first connection needs to come to its
// full rate, so waiting for that would be the greater part of the whole time; what turns out to be
// useless is given back.
func firstWanted(size int64, trip time.Duration) int {
	return max(2, int(alone(size, trip)/stripeFor.Seconds()))
}

// stripe begins to watch over a transfer that takes its lanes from s.stripes; stop ends that, and
// closes what was opened.
func (r *run) stripe(first *usftp.File, flag int, size int64) *striper {
	return r.stripeOver(&striper{pool: r.Host.Pool, first: first, path: first.Name(), flag: flag,
		from: r.result.Resumed, size: size, trip: r.trip})
}

func (r *run) stripeOver(s *striper) *striper {
	s.run, s.stripes = r, private.NewStripes(s.first)
	ctx, cancel := context.WithCancel(r.ctx)
	s.cancel = cancel
	s.work.Go(func() {
		if s.windowBinds(ctx) {
			s.work.Go(func() { s.join(ctx) })
			s.grow(ctx)
		}
	})
	return s
}

func (s *striper) stop() { s.part()() }

// part is stop as a [step]. Its error is that of any handle that has taken part: CLOSE is where a
// server may report that what it has acknowledged could not be stored.
func (s *striper) part() (wait func() error) {
	s.settle()
	for _, lane := range s.lanes {
		s.work.Go(func() { s.close(lane) })
	}
	s.lanes = nil
	return func() error {
		s.work.Wait()
		return s.broken
	}
}

// settle has no more handles join.
func (s *striper) settle() {
	s.cancel()
	s.work.Wait()
}

// close closes a handle that takes part no longer.
func (s *striper) close(lane stripeLane) {
	err := lane.file.Close()
	s.pool.use(lane.on, -1)
	if err != nil && s.flag != os.O_RDONLY {
		s.note(lane, err)
	}
}

// note keeps what was wrong with a handle. One whose connection was lost is not wrong: the others
// have done what was its, but for what it had written, of which nobody will say more.
func (s *striper) note(lane stripeLane, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost(lane.file.Client()) {
		s.cut = true
	} else if s.broken == nil {
		s.broken = err
	}
}

// prove makes sure that all handles were of one file, that it is still what it was, and that it is
// what has the path. It is for when the contents are there, and takes a round trip where further
// handles have taken part, and no time where none have.
func (s *striper) prove() error {
	if s.settle(); s.stripes.Joined() == 0 {
		return nil
	}
	path := s.first.Client().Async().Stat(s.path)
	end := s.first.Async().Stat()
	s.proveLanes(s.lanes, true)
	stat, err := end.WaitContext(s.run.ctx)
	if err != nil {
		return err
	}
	var named *usftp.FileStat
	info, err := path.WaitContext(s.run.ctx)
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
		return errTakenMeanwhile
	}
	if _, syncs := s.first.Client().HasExtension("fsync@openssh.com"); s.cut && syncs {
		// it says what the CLOSE of the handle that was lost would have said
		_, err := s.first.Async().Sync().WaitContext(s.run.ctx)
		return err
	}
	return nil
}

// replaced says that a source that is read over several handles was replaced.
func replaced(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: another file has taken its place", ErrSourceChanged)
	}
	return err
}

// proveLanes asks each of some handles what it says of its file, and notes whose is another.
func (s *striper) proveLanes(lanes []stripeLane, complete bool) {
	var asking sync.WaitGroup
	for _, lane := range lanes {
		asking.Go(func() {
			stat, err := lane.file.Async().Stat().WaitContext(s.run.ctx)
			switch {
			case err != nil:
			case s.same(stat, complete):
				return
			case s.flag == os.O_RDONLY:
				err = replaced(nil)
			default:
				err = notJoined(int64(stat.Size), s.size)
			}
			s.note(lane, err)
		})
	}
	asking.Wait()
}

// same reports whether what a handle says of its file is what the first has said. While a file is
// written its size and time change, and whether its handles are of one file is found out by what
// they see of each other's data; complete, it has its size.
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

// know asks the first handle what it says of its file.
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

// join opens the file on each client that there is, and each that comes.
func (s *striper) join(ctx context.Context) {
	known := make(map[pooledClient]bool)
	for ctx.Err() == nil {
		clients, changed := s.pool.others()
		for _, c := range clients {
			if !known[c] {
				known[c] = true
				s.work.Go(func() { s.joinOne(ctx, c) })
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// joinOne opens the file once more, makes sure that it is the same one, and has it take part.
func (s *striper) joinOne(ctx context.Context, c pooledClient) {
	f, err := c.WithContext(ctx).OpenFile(s.path, s.flag, 0) // neither created nor truncated
	if err != nil {
		return // the host may not let it be open twice
	}
	f = f.WithContext(s.run.ctx)
	if !s.isSame(ctx, f) || s.flag != os.O_RDONLY && !s.sees(ctx, f) || !s.stripes.Join(f) {
		f.Close()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes = append(s.lanes, stripeLane{f, c.on})
	s.pool.use(c.on, 1)
}

// isSame asks a handle, and the first one once, what they say of their file. By handle, since the
// path may have come to name another file since.
func (s *striper) isSame(ctx context.Context, f *usftp.File) bool {
	looking := f.Async().Stat()
	if !s.know(ctx) {
		return false
	}
	stat, err := looking.WaitContext(ctx)
	return err == nil && s.same(stat, false)
}

// sees waits until another handle has written something, and tells whether this one sees it.
// Servers in front of object stores keep what each handle writes to itself.
func (s *striper) sees(ctx context.Context, f *usftp.File) bool {
	const most = 8 // questions in a round trip: an answer that says "not yet" is not waited for
	ticker := time.NewTicker(max(s.trip/most, 10*time.Millisecond))
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
					s.run.line.habits.apart.Store(true)
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
		case <-ticker.C: // nothing is there to be seen yet
		case <-ctx.Done():
			return false
		}
	}
}

// errNotJoined says that a file that was written over several handles is not whole.
var errNotJoined = errors.New("the host does not put together what was written over several connections")

// notJoined says how large such a file is.
func notJoined(size, want int64) error {
	return fmt.Errorf("%w: it has %d bytes and should have %d; a single connection will do (--connections=1 --streams=1)", errNotJoined, size, want)
}
