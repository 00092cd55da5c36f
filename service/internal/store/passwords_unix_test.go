//go:build unix

package store

import (
	"errors"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// testPasswords: a password is changed once, in place of the one that it is to replace, and then
// no longer due, on all nodes.
func testPasswords(t *testing.T, name string) {
	one, two := patient(t, name), patient(t, name)
	must(t, one.PutUser(t.Context(), User{Name: "ann", Root: "/", Password: "old"}, false))
	see := func(what string, is func(u User) bool) {
		t.Helper()
		testenv.Until(t, what, func() bool {
			got := two.Users()
			return len(got) == 1 && is(got[0])
		})
	}
	see("one that is to be changed", func(u User) bool { return u.PasswordSet.IsZero() })
	must(t, two.ChangePassword(t.Context(), "ann", "old", "fresh"))
	if err := one.ChangePassword(t.Context(), "ann", "old", "other"); !errors.Is(err,
		ErrPasswordChanged) {
		t.Errorf("a second change: %v", err)
	}
	see("the new one", func(u User) bool {
		return u.Password == "fresh" && time.Since(u.PasswordSet).Abs() < time.Minute
	})
	must(t, one.ExpirePassword(t.Context(), "ann"))
	see("one that has expired", func(u User) bool { return u.PasswordSet.IsZero() })
	must(t, one.PutUser(t.Context(), User{Name: "ann", Root: "/", PasswordSet: time.Now()}, true))
	see("a replaced one", func(u User) bool { return !u.PasswordSet.IsZero() })
	if err := one.ExpirePassword(t.Context(), "bob"); !errors.Is(err, ErrNoUser) {
		t.Errorf("bob: %v", err)
	}
}
