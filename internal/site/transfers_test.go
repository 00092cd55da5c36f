package site

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server"
)

// What a user has moved counts on when a reload changes the limit, for sessions from before and
// after it, and until the period is over.
func TestTransfersOverReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Site{}
		before, _ := s.transfers("u", Transfers{Up: 100})
		reserve := func(account server.Account, bytes int64, want error) {
			t.Helper()
			if err := account.Reserve(t.Context(), bytes, 0); err != want {
				t.Errorf("%d bytes: %v, want %v", bytes, err, want)
			}
		}
		reserve(before, 80, nil)
		after, _ := s.transfers("u", Transfers{Up: 200})
		want := server.Usage{Bytes: 80, MaxBytes: 200}
		if up, _ := s.moved("u", Transfers{Up: 200}); up != want {
			t.Errorf("%+v counts, want %+v", up, want)
		}
		reserve(after, 100, nil)
		reserve(after, 30, server.ErrQuota)
		reserve(before, 1, server.ErrQuota)
		time.Sleep(31 * 24 * time.Hour)
		reserve(after, 200, nil)
	})
}
