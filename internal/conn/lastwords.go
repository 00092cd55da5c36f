package conn

import "time"

// writeFailed ends the connection that could not be written to. That the peer is gone is all that a
// write can tell ("broken pipe"); what it had answered before, or said instead of listening to
// INIT, and how it ended is for the reader to find. So the reader has a moment to end the
// connection itself.
func (c *Conn) writeFailed(err error) {
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-c.life.Done():
	case <-timer.C:
		c.end(&LostError{Cause: err})
	}
}
