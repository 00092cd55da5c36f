// Package bottleneck finds the cause that limited the rate of a copy.
package bottleneck

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/machine"
	"github.com/usftp/usftp/internal/pace"
)

// The causes that limit a rate. "" means unknown: the copy was too short to tell, or nothing stood
// out.
const (
	Window    = "link window" // SSH's: more connections would have helped
	Link      = "link"        // or the connections' own flow control
	Server    = "server"      // it took long to answer requests
	Processor = "processor"   // this machine's
	Disk      = "disk"        // the local file, reader or writer
	RateLimit = "limit"       // set by the user
)

// Evidence is the basis of a verdict.
type Evidence struct {
	Elapsed    time.Duration // without pauses
	held       time.Duration // in which the limit made a caller wait
	Local      time.Duration // spent with the local file
	cpu        time.Duration // of the whole process; 0 or less if the system does not report it
	processors int           // available to the process
	bytes      int64
	Windows    float64 // bytes per second that the windows of all sessions carry; 0 if irrelevant
	Far        bool    // the round trip is long enough for windows and links to matter
	Limit      int64   // bytes per second, 0 for none

	// Both were sampled at the same times: a ping of the transport, and a request that the server
	// answers in line behind the requests of the copy.
	samples      int
	ping, answer time.Duration // sums
}

const (
	leastJudged = time.Second // shorter copies get no verdict
	busy        = 0.85        // of the processors' time
	mostly      = 0.5         // of the time
	filled      = 0.6         // of the windows' capacity, including the slow beginning
	// Answers that take this many times a ping: then about half of the requests in flight wait at
	// the server. A ping waits only in the link.
	overdue    = 1.5
	noticeable = 2 * time.Millisecond
)

// verdict returns the cause that limited a copy, testing the surest signs first.
func (e *Evidence) verdict() string {
	if e.Elapsed < leastJudged {
		return ""
	}
	rate := float64(e.bytes) / e.Elapsed.Seconds()
	switch {
	case e.Limit > 0 && (rate > 0.9*float64(e.Limit) ||
		e.held.Seconds() > mostly*e.Elapsed.Seconds()):
		return RateLimit
	case e.cpu.Seconds() > busy*e.Elapsed.Seconds()*float64(e.processors):
		return Processor
	case e.Local.Seconds() > mostly*e.Elapsed.Seconds():
		return Disk
	case e.Far && e.Windows > 0 && rate > filled*e.Windows:
		return Window
	case e.samples > 0 && e.answer.Seconds() > overdue*e.ping.Seconds() &&
		e.answer > time.Duration(e.samples)*noticeable:
		return Server
	case e.samples > 0 && e.Far:
		return Link
	}
	return ""
}

// A Sampler gathers evidence during a copy.
type Sampler struct {
	pauses  *pace.Pauses
	limiter *pace.Limiter
	began   time.Time
	paused  time.Duration // before it began
	before  time.Duration // for which the limit had held a caller by then
	cpu     time.Duration
	Stop    context.CancelFunc // without a verdict
	work    sync.WaitGroup
	Evidence
}

// sampleEvery is the time between two samples. The first is taken after half of it.
const sampleEvery = time.Second

// NewSampler starts gathering evidence about a copy over a client, until Stop or End.
func NewSampler(ctx context.Context, client *usftp.Client, pauses *pace.Pauses,
	limiter *pace.Limiter) *Sampler {
	ctx, stop := context.WithCancel(ctx)
	w := &Sampler{pauses: pauses, limiter: limiter, began: time.Now(), paused: pauses.Sum(),
		before: limiter.HeldFor(), cpu: machine.ProcessorTime(), Stop: stop}
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

// sample measures how long the transport and the server take to answer. It returns false if it
// cannot measure that.
func (w *Sampler) sample(ctx context.Context, client *usftp.Client) bool {
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

// End stops gathering and returns the verdict.
func (w *Sampler) End(bytes int64) string {
	w.Stop()
	w.work.Wait()
	w.Elapsed, w.held = w.Moving(), w.limiter.HeldFor()-w.before
	w.bytes = bytes
	w.processors = runtime.GOMAXPROCS(0)
	if w.cpu >= 0 {
		w.Evidence.cpu = machine.ProcessorTime() - w.cpu
	}
	return w.verdict()
}

// Moving returns the time since the beginning, without pauses.
func (w *Sampler) Moving() time.Duration {
	return time.Since(w.began) - (w.pauses.Sum() - w.paused)
}

// A Sum adds up the bytes of a tree's larger files by the cause that limited them.
type Sum struct {
	mu    sync.Mutex
	bytes map[string]int64
}

func (b *Sum) Add(limit string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes == nil {
		b.bytes = make(map[string]int64)
	}
	b.bytes[limit] += bytes
}

// Verdict returns the cause that limited most of the bytes, or "" if none did.
func (b *Sum) Verdict(bytes int64) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for limit, n := range b.bytes {
		if n > bytes/2 {
			return limit
		}
	}
	return ""
}
