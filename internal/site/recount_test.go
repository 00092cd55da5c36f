package site

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server"
)

// away is a directory that cannot be listed for a while, of a file with ten bytes afterwards.
type away struct {
	server.FS
	until time.Time
	tries int
}

func (a *away) Count(context.Context, string) (bytes, files int64, err error) {
	if a.tries++; time.Now().Before(a.until) {
		return 0, 0, errors.New("it is away")
	}
	return 10, 1, nil
}

// TestRecountWaits: what cannot be counted after a reload, since it is away, is counted later, and
// the rest at once. It ends with the server.
func TestRecountWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Site{Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, end := context.WithCancel(t.Context())
		late := &away{until: time.Now().Add(10 * time.Minute)}
		never := &away{until: time.Now().Add(24 * 365 * time.Hour)}
		here := &away{}
		var quotas []rootQuota
		for _, one := range []*away{late, never, here} {
			quotas = append(quotas, rootQuota{server.NewQuota(0, 0), "/root", one})
		}
		s.recounting.Go(func() { s.recount(ctx, nil, quotas) })
		synctest.Wait()
		if bytes, _ := quotas[2].Usage(); bytes != 10 {
			t.Errorf("%d bytes in the directory that is not away", bytes)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if bytes, _ := quotas[0].Usage(); bytes != 10 {
			t.Errorf("%d bytes in the directory that was away", bytes)
		}
		if late.tries > 10 || never.tries > 50 || here.tries != 1 {
			t.Errorf("%d, %d and %d tries", late.tries, never.tries, here.tries)
		}
		if n := strings.Count(log.String(), "cannot recount"); n != 2 {
			t.Errorf("the log has %d lines about two quotas:\n%s", n, log.String())
		}
		end()
		s.recounting.Wait()
	})
}
