package flow

import "time"

// When a file is worth more than one connection.
const (
	// SSHWindow is the data that one channel carries in a round trip: the window of OpenSSH and of
	// x/crypto/ssh.
	SSHWindow = 2 << 20

	// StripeTrip is the shortest round trip over which a channel's window may limit the rate: it
	// carries 4 Gbit/s there. On a shorter one a busy machine is the likelier reason, and more
	// connections would only make it busier.
	StripeTrip = 4 * time.Millisecond

	// StripeAtOnce is the longest round trip over which one window carries a gigabit a second. Most
	// links have no more than that, and more lanes only overflow their queues: 500 MB at 10 ms took
	// 5.4 s over four lanes and 4.6 s over one. So the rate of one is measured first.
	StripeAtOnce = SSHWindow * time.Second / 125e6

	// StripeFor is how long a transfer must still take at one window per round trip for another
	// login to pay off.
	StripeFor = 1500 * time.Millisecond
)

// WorthStriping reports whether a file is so large, and the round trip so long, that one channel's
// window may limit the rate.
func WorthStriping(size int64, trip time.Duration) bool {
	return trip >= StripeTrip && alone(size, trip) > StripeFor.Seconds()
}

// alone returns how many seconds a file takes at one window per round trip.
func alone(size int64, trip time.Duration) float64 {
	return float64(size) / SSHWindow * trip.Seconds()
}

// FirstConnections returns how many connections to ask for before any rate is known: as many as the
// window alone justifies. A login takes longer than the first connection needs to reach its full
// rate, so waiting for that would take most of the whole time; useless connections are closed
// again.
func FirstConnections(size int64, trip time.Duration) int {
	return max(2, int(alone(size, trip)/StripeFor.Seconds()))
}
