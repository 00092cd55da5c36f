package transfer

import (
	"fmt"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// stalledAfter is how long data must be overdue before that is reported.
const stalledAfter = 5 * time.Second

// addStall fills in that a host sends nothing of what it owes, and what follows from that.
func (e *Event) addStall(j *job) {
	for _, conn := range j.conns() {
		since, end := quietSince(conn.Host())
		stalled := time.Since(since)
		if since.IsZero() || stalled < stalledAfter || stalled <= e.Stalled {
			continue
		}
		e.Stalled, e.Wait = stalled, max(0, time.Until(end))
		follows := "giving up"
		if pools.OfConn(conn).Renews() {
			follows = "reconnecting"
		}
		e.Message = fmt.Sprintf("stalled for %d s; %s in %d s", stalled/time.Second, follows,
			(e.Wait+time.Second/2)/time.Second)
	}
}

// quietSince returns since when all sessions of a host that owe something have sent nothing of it, and
// when the connection is given up for that. Both are zero if nothing is overdue.
func quietSince(host pool.Host) (since, end time.Time) {
	clients := []*usftp.Client{host.Client}
	if host.Pool != nil {
		others, _ := pools.OfPool(host.Pool).Sessions()
		for _, other := range others {
			clients = append(clients, other.Client())
		}
	}
	for _, client := range clients {
		if from, to := private.OfClient(client).Overdue(); from.After(since) {
			since, end = from, to
		}
	}
	return since, end
}
