package hosts

import (
	"context"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// shortTrip is the round trip below which a link holds next to nothing.
const shortTrip = 2 * time.Millisecond

// startSmall limits what uploads have in flight if they share this machine's processors and a short
// link: as much as a long link needs would cost the hosts more time than the copy itself.
func startSmall(ctx context.Context, client *usftp.Client) {
	began := time.Now()
	if client.Ping(ctx) == nil && time.Since(began) < shortTrip {
		private.OfClient(client).StartSmall()
	}
}
