package usftp_test

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// Clients that share a budget never have more in flight together, except for one request each, and
// a connection that ends returns its share.
func TestBudgetIsShared(t *testing.T) {
	const most, clients, request = 2 << 20, 4, 255 << 10
	data := make([]byte, 16<<20)
	for i := range data {
		data[i] = byte(i>>8 ^ i)
	}
	for _, shared := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			budget := usftp.NewBudget(most)
			var mu sync.Mutex
			highest := int64(0)
			server := sftptest.NewServer(t,
				sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == wire.TypeRead {
						mu.Lock()
						defer mu.Unlock()
						highest = max(highest, budget.InFlight())
					}
					return nil
				}})
			server.Files.WriteFile("/file", data)
			options := []usftp.ClientOption{usftp.WithChannelWindow(2 << 20)}
			if shared {
				options = append(options, usftp.WithBudget(budget))
			}
			stripes, ends := openOver(t, server, clients, 0, options...)
			time.AfterFunc(500*time.Millisecond, func() { ends[1].Cut(nil) })
			r := stripes.ReadRange(0, -1)
			got, err := io.ReadAll(r)
			r.Close()
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if shared && (highest > most+clients*request || highest < most/2) {
				t.Errorf("%d bytes were in flight, of %d", highest, most)
			}
			// virtual time: requests beyond the end are answered
			time.Sleep(time.Second)
			if left := budget.InFlight(); left != 0 {
				t.Errorf("%d bytes are in flight in the end", left)
			}
		})
	}
}

// A program without a budget may pass nil.
func TestNoBudget(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0, usftp.WithBudget(nil))
	data := noise(1 << 20)
	ok(t, r.WriteFile("/f", data, 0o600))
	if got, err := r.ReadFile("/f"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
