//go:build unix

package daemon

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// TestRollingUpgrade: nodes are stopped and started again, one after the other, while clients
// write. A client whose node stops goes on through another one. Whatever was closed well can be
// read on every node, nothing truncated is seen, no event is missing, and in the end quotas are
// right and nothing is left.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	users := []fault{{number: 0}, {number: 1}, {number: 2}}
	f := newFaults(t, s3test.Storage(t, "bucket"), storetest.Postgres(t), 0, users)
	r := &rolling{faults: f, nodes: []*servetest.Server{f.sound}, stored: make([]atomic.Int64, 3)}
	for i := range 2 {
		r.nodes = append(r.nodes, f.start(t, fmt.Sprint("node", i), f.endpoint, f.storeURL))
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for i := range users {
		writing.Go(func() { r.write(i, stop) })
	}
	for i := range r.nodes {
		before := r.counts()
		testenv.Until(t, "all users have stored something", func() bool { return r.beyond(before) })
		r.node(i).End(syscall.SIGTERM, 0)
		again := f.start(t, fmt.Sprint("again", i), f.endpoint, f.storeURL)
		r.mu.Lock()
		r.nodes[i] = again
		r.mu.Unlock()
	}
	before := r.counts()
	testenv.Until(t, "all users have stored something", func() bool { return r.beyond(before) })
	close(stop)
	writing.Wait()
	for i, one := range users {
		least := int(r.stored[i].Load())
		testenv.Until(t, "each file has its event", func() bool { return f.eventsOf(one) >= least })
	}
	f.sound = r.nodes[0]
	for _, s := range r.nodes[1:] {
		s.End(syscall.SIGTERM, 0)
	}
	f.end(users)
}

// rolling is a service whose nodes are replaced.
type rolling struct {
	*faults
	mu     sync.Mutex
	nodes  []*servetest.Server
	stored []atomic.Int64 // files of each user that were closed well
}

func (r *rolling) node(i int) *servetest.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[i%len(r.nodes)]
}

func (r *rolling) counts() (all []int64) {
	for i := range r.stored {
		all = append(all, r.stored[i].Load())
	}
	return all
}

func (r *rolling) beyond(before []int64) bool {
	for i, n := range r.counts() {
		if n <= before[i] {
			return false
		}
	}
	return true
}

// write replaces a user's file until stop is closed, by short ones and long ones, each through the
// next node that takes it.
func (r *rolling) write(user int, stop chan struct{}) {
	one, next := fault{number: user}, user
	var may [][]byte // what others may see
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		data := r.short[n:]
		if n%2 == 1 {
			data = r.long[n:]
		}
		may = append(may, data)
		began := time.Now()
		for {
			next++
			err := r.on(r.T, r.node(next), one, func(c *usftp.Client) error {
				return putFile(c, "/file", data)
			})
			if err == nil {
				break
			}
			if time.Since(began) > testenv.Patience(r.T) {
				r.Errorf("user %d cannot store file %d on any node: %v", user, n, err)
				return
			}
			r.sees(one, next, may)
		}
		r.stored[user].Add(1)
		may = [][]byte{data}
		r.sees(one, next+1, may)
	}
}

// sees checks what others see on some node: what was closed well, or else, if the answer to CLOSE
// was lost, possibly what came after it.
func (r *rolling) sees(one fault, from int, may [][]byte) {
	var got []byte
	for began := time.Now(); ; from++ {
		err := r.on(r.T, r.node(from), one, func(c *usftp.Client) (err error) {
			got, err = getFile(c, "/file")
			return err
		})
		if err == nil {
			break
		}
		if len(may) == 1 && r.stored[one.number].Load() == 0 { // there may be none yet
			return
		}
		if time.Since(began) > testenv.Patience(r.T) {
			r.Errorf("%s cannot read the file on any node: %v", one.user(), err)
			return
		}
	}
	for _, data := range may {
		if bytes.Equal(got, data) {
			return
		}
	}
	r.Errorf("%s sees %d bytes, which are neither the old file nor the new one", one.user(),
		len(got))
}
