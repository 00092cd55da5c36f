package s3bucket

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// clock compares this machine's clock with the storage's, which dates its answers: S3 refuses what
// is signed 15 minutes before or after, and not all storage says that this is why.
type clock struct {
	http.RoundTripper
	ahead *atomic.Int64 // by how many ns this machine's is ahead, as of the last answer
}

func (c clock) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := c.RoundTripper.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		ended := began.Add(time.Since(began)).Round(0)
		began = began.Round(0)
		switch date = date.Round(0); { // it says whole seconds, and may be of any moment in between
		case began.After(date.Add(time.Second)):
			c.ahead.Store(int64(began.Sub(date)))
		case date.After(ended):
			c.ahead.Store(int64(ended.Sub(date)))
		default:
			c.ahead.Store(0)
		}
	}
	return answer, err
}

const (
	// mostAhead is by how much clocks may differ without a word. It leaves time to set one right.
	mostAhead = time.Minute

	// refusedAhead is from where on a difference may be why requests are refused. S3 allows 15
	// minutes, and other storage may allow less.
	refusedAhead = 4 * time.Minute
)

// Clock says by how much this machine's clock differs from the storage's, as of the last answer; ""
// if it hardly does.
func (b *Bucket) Clock() string { return b.differs(mostAhead) }

func (b *Bucket) differs(most time.Duration) string {
	switch ahead := time.Duration(b.ahead.Load()).Round(time.Second); {
	case ahead > most:
		return fmt.Sprintf("this machine's clock is %s ahead of the storage's", ahead)
	case ahead < -most:
		return fmt.Sprintf("this machine's clock is %s behind the storage's", -ahead)
	}
	return ""
}
