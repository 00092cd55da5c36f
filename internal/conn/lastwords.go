package conn

import "time"

// writeFailed ends a connection after a failed write. The write's error says only that the peer is
// gone ("broken pipe"). What the peer answered before, or said instead of VERSION, and how it
// ended, only the reader can find out. So the reader gets a moment to end the connection itself.
func (c *Conn) writeFailed(err error) {
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-c.life.Done():
	case <-timer.C:
		c.end(&LostError{Cause: err})
	}
}
