package daemon

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/store"
)

// TestNewPasswordsTakeTurns: a new password is not hashed, which takes 64 MiB, while as many are as
// may be, and does not wait forever.
func TestNewPasswordsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var given flags
		given.register(pflag.NewFlagSet("usftpd", pflag.ContinueOnError))
		given.config = "unread"
		s, err := newService(t.Context(), nil, &given)
		if err != nil {
			t.Fatal(err)
		}
		change := s.renewal(store.User{Name: "ann"},
			passwordRules{least: usualLeast})("the old password")
		for range atOnceHashed {
			s.hashing <- struct{}{}
		}
		began := time.Now()
		if err := change("a new password"); !errors.Is(err, sshd.ErrUndecided) ||
			time.Since(began) != hashPatience {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		<-s.hashing
		if hash, err := s.hash("a new password"); err != nil || hash == "" || len(s.hashing) != 1 {
			t.Errorf("its turn: %q, %v, %d being hashed", hash, err, len(s.hashing))
		}
	})
}
