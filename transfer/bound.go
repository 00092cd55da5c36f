package transfer

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// Bound is what the rate of a copy was bound by.
type Bound string

// The bounds. The zero Bound says that it is not known: the copy was too short to tell, or nothing
// stood out.
const (
	// SSH's windows, which carry so much a round trip: more connections would have helped
	BoundWindow Bound = "link window"
	// what the link carries, or the connections' own flow control
	BoundLink      Bound = "link"
	BoundServer    Bound = "server"    // its requests waited while its transport answered at once
	BoundProcessor Bound = "processor" // of this machine
	BoundDisk      Bound = "disk"      // the local file, or the job's Reader or Writer
	BoundLimit     Bound = "limit"     // Options.RateLimit
)

// evidence is what a verdict follows from.
type evidence struct {
	elapsed    time.Duration
	local      time.Duration // spent with the local file
	cpu        time.Duration // of the whole process; below 0 where the system does not tell
	processors int           // that the process may use
	bytes      int64
	// bytes a second that the windows of all sessions carry; 0 where that is no matter
	windows float64
	far     bool  // the round trip is long enough for windows and links to be the reason
	limit   int64 // bytes a second, 0 for none

	// Both were asked for at the same times: a sign of life of the transport, and an answer of the
	// server's that stands in line behind what the copy has asked for.
	samples      int
	ping, answer time.Duration // sums
}

const (
	shortest = time.Second // that a verdict is given of
	busy     = 0.85        // of the processors
	mostly   = 0.5         // of the time
	filled   = 0.6         // of what the windows carry, the beginning of the transfer counted in
	// times as long as a sign of life: of what is in flight about half waits, at the server or in
	// the link, and a sign of life waits only there
	overdue    = 1.5
	noticeable = 2 * time.Millisecond
)

// verdict tells what bound a copy. What is sure comes first.
func (e *evidence) verdict() Bound {
	if e.elapsed < shortest {
		return ""
	}
	rate := float64(e.bytes) / e.elapsed.Seconds()
	switch {
	case e.limit > 0 && rate > 0.9*float64(e.limit):
		return BoundLimit
	case e.cpu.Seconds() > busy*e.elapsed.Seconds()*float64(e.processors):
		return BoundProcessor
	case e.local.Seconds() > mostly*e.elapsed.Seconds():
		return BoundDisk
	case e.far && e.windows > 0 && rate > filled*e.windows:
		return BoundWindow
	case e.samples > 0 && e.answer.Seconds() > overdue*e.ping.Seconds() &&
		e.answer > time.Duration(e.samples)*noticeable:
		return BoundServer
	case e.samples > 0 && e.far:
		return BoundLink
	}
	return ""
}

// witness gathers evidence while something is copied.
type witness struct {
	began time.Time
	cpu   time.Duration
	stop  context.CancelFunc
	work  sync.WaitGroup
	evidence
}

// sampleEvery is the time between two samples; the first comes after half of it.
const sampleEvery = time.Second

// testify begins to gather evidence about a copy over a client.
func testify(ctx context.Context, client *usftp.Client) *witness {
	ctx, stop := context.WithCancel(ctx)
	w := &witness{began: time.Now(), cpu: processorTime(), stop: stop}
	if client == nil { // a copy on this machine has no link to look at
		return w
	}
	w.work.Go(func() {
		ticker := time.NewTicker(sampleEvery / 2)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			ticker.Reset(sampleEvery)
			if !w.sample(ctx, client) {
				return
			}
		}
	})
	return w
}

// sample compares how long the transport and the server take; false where that cannot be found out.
func (w *witness) sample(ctx context.Context, client *usftp.Client) bool {
	var ping time.Duration
	began := time.Now()
	answered := make(chan error, 1)
	go func() {
		err := client.Ping(ctx)
		ping = time.Since(began)
		answered <- err
	}()
	_, err := client.WithContext(ctx).RealPath(".")
	answer := time.Since(began)
	if pingErr := <-answered; err != nil || pingErr != nil {
		return false
	}
	w.samples++
	w.ping += ping
	w.answer += answer
	return true
}

// end ends the gathering and gives the verdict.
func (w *witness) end(bytes int64) Bound {
	w.stop()
	w.work.Wait()
	w.elapsed = time.Since(w.began)
	w.bytes = bytes
	w.processors = runtime.GOMAXPROCS(0)
	if w.cpu >= 0 {
		w.evidence.cpu = processorTime() - w.cpu
	}
	return w.verdict()
}

// judge has a function copy the contents of a file over lanes, and finds out what bound it.
func (r *run) judge(f *usftp.File, copyAll func() (n int64, lanes int, err error)) (int64, error) {
	waited := private.OfFile(f).Waited()
	w := testify(r.ctx, r.Host.Client)
	n, lanes, err := copyAll()
	if err != nil {
		w.stop() // what a lost connection does to the samples is not waited for
		return n, err
	}
	w.local = time.Since(w.began) - (private.OfFile(f).Waited() - waited)
	w.limit = r.Options.RateLimit
	w.far, w.windows = r.trip >= stripeTrip, float64(lanes)*sshWindow/max(r.trip, 1).Seconds()
	r.result.Bound = w.end(n)
	return n, nil
}

// bounds gathers what bound the larger files of a tree.
type bounds struct {
	mu    sync.Mutex
	bytes map[Bound]int64
}

func (b *bounds) add(bound Bound, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes == nil {
		b.bytes = make(map[Bound]int64)
	}
	b.bytes[bound] += bytes
}

// verdict returns what bound most of so many bytes, "" where nothing did.
func (b *bounds) verdict(bytes int64) Bound {
	b.mu.Lock()
	defer b.mu.Unlock()
	for bound, n := range b.bytes {
		if n > bytes/2 {
			return bound
		}
	}
	return ""
}

// bound tells what bound the tree: what did most of its bytes, or else what is seen of the whole.
func (t *treeRun) bound(w *witness) Bound {
	w.far, w.limit = t.trip >= stripeTrip, t.Options.RateLimit
	whole := w.end(t.bytes.Load())
	// most of which is done by the host, unseen
	if t.Direction == Local || t.Direction == Checking {
		return ""
	}
	if most := t.bounds.verdict(t.bytes.Load()); most != "" {
		return most
	}
	return whole
}
