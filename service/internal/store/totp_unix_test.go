//go:build unix

package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// testCodes: a code works once, however many nodes are given it at once; wrong ones are counted on
// all nodes together; and who has lost everything else has recovery codes.
func testCodes(t *testing.T, name string) {
	one, two := patient(t, name), patient(t, name)
	number := func(n int64) func(string) (int64, bool) {
		return func(secret string) (int64, bool) { return n, n > 0 && secret == "secret" }
	}
	if err := one.UseCode(t.Context(), "ann", "", number(1)); !errors.Is(err, ErrNoSecret) {
		t.Errorf("without a secret: %v", err)
	}
	must(t, one.PutSecret(t.Context(), "ann", "secret", []string{"r0", "r1", "r2"}, false))
	if err := two.PutSecret(t.Context(), "ann", "other", nil, false); !errors.Is(err,
		errSecretExists) {
		t.Errorf("another secret: %v", err)
	}
	for n := range int64(3) {
		var used atomic.Int64
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				err := []*Store{one, two}[i%2].UseCode(t.Context(), "ann", "", number(n+1))
				switch {
				case err == nil:
					used.Add(1)
				case !errors.Is(err, errCodeUsed):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if used.Load() != 1 {
			t.Errorf("a code was used %d times", used.Load())
		}
	}
	if err := two.UseCode(t.Context(), "ann", "", number(2)); !errors.Is(err, errCodeUsed) {
		t.Errorf("an older code: %v", err)
	}
	for i := range mostWrongCodes + 1 {
		want := errCodeWrong
		if i == mostWrongCodes {
			want = errWrongCodes
		}
		if err := []*Store{one, two}[i%2].UseCode(t.Context(), "ann", "",
			number(0)); !errors.Is(err, want) {
			t.Errorf("wrong code %d: %v", i, err)
		}
	}
	must(t, one.UseCode(t.Context(), "ann", "r1", number(0)))
	if err := two.UseCode(t.Context(), "ann", "r1", number(0)); err == nil {
		t.Errorf("a recovery code that was used: %v", err)
	}
	names, left, err := two.Secrets(t.Context())
	if fmt.Sprint(names, left, err) != "[ann] [2] <nil>" {
		t.Errorf("the store has %v %v %v", names, left, err)
	}
	must(t, two.PutSecret(t.Context(), "ann", "secret", []string{"new"}, true))
	must(t, one.UseCode(t.Context(), "ann", "", number(1)))
	if err := one.UseCode(t.Context(), "ann", "r0", number(0)); !errors.Is(err, errCodeWrong) {
		t.Errorf("a recovery code of a replaced secret: %v", err)
	}
	must(t, one.RemoveSecret(t.Context(), "ann"))
	if err := one.UseCode(t.Context(), "ann", "new", number(5)); !errors.Is(err, ErrNoSecret) {
		t.Errorf("a removed secret: %v", err)
	}
	defer outage(t, one)()
	if err := one.UseCode(t.Context(), "ann", "new", number(5)); !errors.Is(err, ErrDown) {
		t.Errorf("while the store is down: %v", err)
	}
}
