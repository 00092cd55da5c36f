package transfer

import (
	"fmt"
	"time"
)

const (
	// firstDelay is how long is waited before a lost connection is made anew, and twice as long before each further try.
	firstDelay = time.Second
	mostDelay  = 30 * time.Second
)

// retry makes a lost connection anew, with back-off, and tells whether the job can go on. Tries count since data last arrived: a link that
// breaks again and again gets through in the end.
func (r *run) retry(err error) bool {
	if r.item != nil || r.Host.Redial == nil || r.Options.Retries <= 0 || r.Reader != nil || r.Writer != nil || r.unsure || !r.lost() {
		return false
	}
	if r.result.Bytes > r.reached {
		r.reached, r.tries = r.result.Bytes, 0
	}
	for ; r.tries < r.Options.Retries; r.tries++ {
		delay := min(firstDelay<<min(r.tries, 10), mostDelay)
		r.tell(Event{Kind: Retried, Size: r.size, Bytes: r.result.Bytes, Err: err,
			Message: fmt.Sprintf("%v; it is tried again in %v", r.failure(err), delay)})
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-r.ctx.Done():
			timer.Stop()
			return false
		}
		host, dialErr := r.Host.Redial(r.ctx)
		if dialErr == nil {
			r.Host.Client, r.Host.Pool = host.Client.WithContext(r.ctx), host.Pool
			r.result, r.detail, r.temporary = Result{}, "", ""
			r.tries++
			return true
		}
		err = dialErr
	}
	return false
}

// resumes tells whether what was left is to be gone on from.
func (r *run) resumes() bool { return r.Options.Resume || r.left != nil }
