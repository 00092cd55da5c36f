package transfer

import (
	"io/fs"
	"os"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// stripeSource begins to open further handles of a relay's source, from where it is read on; nil
// where one will do. What the target's host does with further lanes is its own matter: each side
// has the connections that its way is worth.
func (r *run) stripeSource(first *usftp.File, source fs.FileInfo, off int64, trip time.Duration) *striper {
	pool := r.From.Pool
	if pool == nil || pool.most() < 2 || r.from == r.line || r.limiter != nil || r.spreads() ||
		private.OfClient(r.From.Client).ReadsOnce() ||
		!source.Mode().IsRegular() || !worthStriping(source.Size()-off, trip) {
		return nil
	}
	return r.stripeOver(&striper{pool: pool, first: first, path: r.Source, flag: os.O_RDONLY, from: off,
		size: source.Size(), trip: trip})
}
