package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/usftp/usftp"
)

const (
	// stripeTrip is the shortest round trip over which an SSH channel's window may be what bounds the rate: it carries 4 Gbit/s there. On a
	// shorter one a busy machine is the likelier reason, and more connections would only make it busier.
	stripeTrip = 4 * time.Millisecond

	// stripeFor is how long a transfer must still last, by what one window a round trip carries, for logging in again to
	// pay.
	stripeFor = 1500 * time.Millisecond

	// sshWindow is what one channel carries in a round trip: OpenSSH's window, and x/crypto/ssh's.
	sshWindow = 2 << 20
)

// striper opens further handles of a file while it is being copied, as long as that helps.
type striper struct {
	run     *run
	stripes usftp.Stripes
	path    string // of the file on the host
	flag    int
	size    int64
	trip    time.Duration

	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	files  []*usftp.File
}

// worthStriping tells whether a file is so large, and the way so long, that one channel's window may be what bounds the rate.
func (r *run) worthStriping(size int64) bool {
	if r.Host.Pool == nil || r.Host.Pool.most() < 2 || r.limiter != nil || r.trip < stripeTrip || size <= 0 {
		return false
	}
	return float64(size)/sshWindow*r.trip.Seconds() > stripeFor.Seconds()
}

// stripe begins to watch over a transfer that takes its lanes from s.stripes; stop ends that, and closes what was opened.
func (r *run) stripe(path string, flag int, size int64) *striper {
	s := &striper{run: r, path: path, flag: flag, size: size, trip: r.trip}
	ctx, cancel := context.WithCancel(r.ctx)
	s.cancel = cancel
	s.work.Go(func() { s.join(ctx) })
	s.work.Go(func() { s.grow(ctx) })
	return s
}

func (s *striper) stop() {
	s.cancel()
	s.work.Wait()
	for _, f := range s.files {
		s.work.Go(func() { f.Close() })
	}
	s.work.Wait()
}

// grow asks for more connections, twice as many each time, while the window bounds the rate and enough is left: while the rate still grows from
// one round trip to the next, or comes near to a window a round trip for each lane. Where the link, a processor or a disk is what
// bounds it neither is so.
func (s *striper) grow(ctx context.Context) {
	const (
		growing = 1.25
		near    = 0.5
	)
	wanted := s.first()
	s.run.Host.Pool.want(wanted)
	every := max(s.trip, 20*time.Millisecond)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last int64
	var rate float64
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		moved := s.stripes.Moved()
		now := float64(moved-last) / every.Seconds()
		before := rate
		last, rate = moved, now
		perLane := sshWindow / s.trip.Seconds()
		lanes := float64(1 + s.stripes.Joined())
		bound := now > growing*before && moved > 0 || now > near*lanes*perLane
		if !bound || float64(s.size-moved) < now*stripeFor.Seconds() {
			continue
		}
		wanted *= 2
		s.run.Host.Pool.want(wanted)
		if wanted >= s.run.Host.Pool.config.Connections {
			return
		}
	}
}

// first returns how many connections are wanted before any rate was seen. Until a login is done the first connection has not even come
// to its full rate; so what is worth it by the window alone is asked for at once, as far as connections may log in at the same time.
func (s *striper) first() int {
	alone := float64(s.size) / sshWindow * s.trip.Seconds() / stripeFor.Seconds()
	return int(max(2, min(alone, 1+mostLogins)))
}

// join opens the file on each client that there is, and each that comes.
func (s *striper) join(ctx context.Context) {
	known := make(map[*usftp.Client]bool)
	for ctx.Err() == nil {
		clients, changed := s.run.Host.Pool.others()
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
func (s *striper) joinOne(ctx context.Context, c *usftp.Client) {
	f, err := c.WithContext(ctx).OpenFile(s.path, s.flag, 0)
	if err != nil {
		return // the host may not let it be open twice
	}
	f = f.WithContext(s.run.ctx)
	if !s.sees(ctx, f) || !s.stripes.Join(f) {
		f.Close()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = append(s.files, f)
}

// sees tells whether a handle is of the same file: one that is read has its size, and one that is written shows what another handle has
// written. Servers in front of object stores keep what each handle writes to itself.
func (s *striper) sees(ctx context.Context, f *usftp.File) bool {
	ticker := time.NewTicker(max(s.trip, 20*time.Millisecond))
	defer ticker.Stop()
	for {
		moved := s.stripes.Moved()
		info, err := f.Stat()
		switch {
		case err != nil:
			return false
		case s.flag == os.O_RDONLY:
			return info.Size() == s.size
		case moved > 0:
			return info.Size() > 0
		}
		select {
		case <-ticker.C: // nothing is there to be seen yet
		case <-ctx.Done():
			return false
		}
	}
}

// errNotJoined says that a file that was written over several handles is not whole.
var errNotJoined = errors.New("the host does not put together what was written over several connections")

// whole makes sure that what several handles have written is one file, as the first of them sees it.
func (s *striper) whole(f *usftp.File, n int64) error {
	if s.stripes.Joined() == 0 {
		return nil
	}
	info, err := f.Stat()
	if err == nil && info.Size() != n {
		err = fmt.Errorf("%w: it has %d bytes and should have %d; a single connection will do (--connections=1 --streams=1)", errNotJoined, info.Size(), n)
	}
	return err
}
