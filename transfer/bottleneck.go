package transfer

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/machine"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
)

// Bottleneck names what limited the rate of a copy.
type Bottleneck string

// The zero Bottleneck means unknown: the copy was too short to tell, or nothing stood out.
const (
	BottleneckWindow    Bottleneck = "link window" // SSH's: more connections would have helped
	BottleneckLink      Bottleneck = "link"        // or the connections' own flow control
	BottleneckServer    Bottleneck = "server"      // it took long to answer requests
	BottleneckProcessor Bottleneck = "processor"   // this machine's
	BottleneckDisk      Bottleneck = "disk"        // the local file, Reader or Writer
	BottleneckRateLimit Bottleneck = "limit"       // Options.RateLimit
)

// evidence is what a verdict is based on.
type evidence struct {
	elapsed    time.Duration // without pauses
	held       time.Duration // in which the limit made somebody wait
	local      time.Duration // spent with the local file
	cpu        time.Duration // of the whole process; negative if the system does not report it
	processors int           // available to the process
	bytes      int64
	windows    float64 // bytes per second that the windows of all sessions carry; 0 if irrelevant
	far        bool    // the round trip is long enough for windows and links to matter
	limit      int64   // bytes per second, 0 for none

	// Both were sampled at the same times: a ping of the transport, and a request that the server
	// answers in line behind those of the copy.
	samples      int
	ping, answer time.Duration // sums
}

const (
	leastJudged = time.Second // shorter copies get no verdict
	busy        = 0.85        // of the processors' time
	mostly      = 0.5         // of the time
	filled      = 0.6         // of what the windows carry, including the slow beginning
	// Answers that take this many times a ping: then about half of what is in flight waits at the
	// server. A ping waits only in the link.
	overdue    = 1.5
	noticeable = 2 * time.Millisecond
)

// verdict returns what limited a copy, testing the surest signs first.
func (e *evidence) verdict() Bottleneck {
	if e.elapsed < leastJudged {
		return ""
	}
	rate := float64(e.bytes) / e.elapsed.Seconds()
	switch {
	case e.limit > 0 && (rate > 0.9*float64(e.limit) ||
		e.held.Seconds() > mostly*e.elapsed.Seconds()):
		return BottleneckRateLimit
	case e.cpu.Seconds() > busy*e.elapsed.Seconds()*float64(e.processors):
		return BottleneckProcessor
	case e.local.Seconds() > mostly*e.elapsed.Seconds():
		return BottleneckDisk
	case e.far && e.windows > 0 && rate > filled*e.windows:
		return BottleneckWindow
	case e.samples > 0 && e.answer.Seconds() > overdue*e.ping.Seconds() &&
		e.answer > time.Duration(e.samples)*noticeable:
		return BottleneckServer
	case e.samples > 0 && e.far:
		return BottleneckLink
	}
	return ""
}

// A sampler gathers evidence during a copy.
type sampler struct {
	job    *job
	began  time.Time
	paused time.Duration // before it began
	before time.Duration // for which the limit had held somebody by then
	cpu    time.Duration
	stop   context.CancelFunc
	work   sync.WaitGroup
	evidence
}

// sampleEvery is the time between two samples. The first is taken after half of it.
const sampleEvery = time.Second

// newSampler starts gathering evidence about a copy over a client.
func newSampler(j *job, client *usftp.Client) *sampler {
	ctx, stop := context.WithCancel(j.ctx)
	w := &sampler{job: j, began: time.Now(), paused: j.pauses.Sum(), before: j.limiter.HeldFor(),
		cpu: machine.ProcessorTime(), stop: stop}
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

// sample measures how long the transport and the server take to answer. It returns false if that
// cannot be measured.
func (w *sampler) sample(ctx context.Context, client *usftp.Client) bool {
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

// end stops gathering and returns the verdict.
func (w *sampler) end(bytes int64) Bottleneck {
	w.stop()
	w.work.Wait()
	w.elapsed, w.held = w.moving(), w.job.limiter.HeldFor()-w.before
	w.bytes = bytes
	w.processors = runtime.GOMAXPROCS(0)
	if w.cpu >= 0 {
		w.evidence.cpu = machine.ProcessorTime() - w.cpu
	}
	return w.verdict()
}

// moving returns the time since the beginning, without pauses.
func (w *sampler) moving() time.Duration {
	return time.Since(w.began) - (w.job.pauses.Sum() - w.paused)
}

// judge runs copyAll, which copies a file's contents over some lanes, and determines what limited
// it.
func (s *session) judge(c *fileCopy, f *usftp.File,
	copyAll func() (n int64, lanes int, err error)) (int64, error) {
	waited := private.OfFile(f).Waited()
	w := newSampler(c.job, s.client)
	n, lanes, err := copyAll()
	if err != nil {
		w.stop() // sampling a lost connection would take long
		return n, err
	}
	w.local = w.moving() - (private.OfFile(f).Waited() - waited)
	w.limit = c.options.RateLimit
	w.far = s.trip >= flow.StripeTrip
	w.windows = float64(lanes) * flow.SSHWindow / max(s.trip, 1).Seconds()
	c.result.Bottleneck = w.end(n)
	if n >= leastDelta {
		pools.OfConn(s.conn).NoteRate(float64(n) / w.elapsed.Seconds())
	}
	return n, nil
}

// bottlenecks sums up what limited the larger files of a tree.
type bottlenecks struct {
	mu    sync.Mutex
	bytes map[Bottleneck]int64
}

func (b *bottlenecks) add(limit Bottleneck, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes == nil {
		b.bytes = make(map[Bottleneck]int64)
	}
	b.bytes[limit] += bytes
}

// verdict returns what limited most of the bytes, "" if nothing did.
func (b *bottlenecks) verdict(bytes int64) Bottleneck {
	b.mu.Lock()
	defer b.mu.Unlock()
	for limit, n := range b.bytes {
		if n > bytes/2 {
			return limit
		}
	}
	return ""
}
