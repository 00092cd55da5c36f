package outside

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server/sshd"
)

// source answers what the test says.
type source func(ctx context.Context, q Question) (Answer, error)

func (s source) Ask(ctx context.Context, q Question) (Answer, error) { return s(ctx, q) }

var errAway = errors.New("the directory is away")

// TestCache: while there is no answer the last yes holds for the same password and for its time
// only, and without a cache nothing does.
func TestCache(t *testing.T) {
	t.Parallel()
	var err error
	asked := 0
	answers := source(func(_ context.Context, q Question) (Answer, error) {
		asked++
		if err == nil && q.Password != "right" {
			return Answer{}, &Refusal{"wrong"}
		}
		return Answer{Template: "t"}, err
	})
	a := NewAsker(answers, Limits{Cache: time.Hour})
	now := time.Now()
	a.cache.now = func() time.Time { return now }
	ask := func(password string) error {
		_, err := a.Ask(t.Context(), Question{User: "ann", Password: password})
		return err
	}
	if ask("right") != nil || !refused(ask("wrong")) {
		t.Fatal("the source does not decide")
	}
	err = errAway
	if got, err := a.Ask(t.Context(), Question{User: "ann", Password: "right"}); err != nil ||
		got.Template != "t" {
		t.Errorf("from the cache: %v, %v", got, err)
	}
	before := asked
	if ask("right") != nil || asked != before {
		t.Error("what is down is asked at once again")
	}
	for _, password := range []string{"wrong", ""} {
		if err := ask(password); err == nil {
			t.Errorf("%q is let in", password)
		}
	}
	if _, err := a.Ask(t.Context(), Question{User: "bob", Password: "right"}); !errors.Is(err,
		sshd.ErrUndecided) || !errors.Is(err, errAway) {
		t.Errorf("a user who was not asked about: %v", err)
	}
	now = now.Add(time.Hour + time.Second)
	if err := ask("right"); !errors.Is(err, sshd.ErrUndecided) {
		t.Errorf("an old answer: %v", err)
	}
	err, a.down = nil, time.Time{}
	if ask("right") != nil {
		t.Error("the source answers again, and is not asked")
	}
	a.source = source(func(context.Context, Question) (Answer, error) {
		return Answer{}, &Refusal{"disabled"}
	})
	if !refused(ask("right")) {
		t.Error("a refusal is overruled")
	}
	a.source, err = answers, errAway
	if ask("right") == nil {
		t.Error("who was refused last is let in from the cache")
	}
	a.source, err, a.down = answers, nil, time.Time{}
	if err := ask("right"); err != nil {
		t.Error(err)
	}
	if err = fmt.Errorf("two of that name: %w", ErrAnswered); !errors.Is(ask("right"),
		sshd.ErrUndecided) {
		t.Error("the cache is asked although the source is there")
	}
	for _, one := range a.cache.all {
		if one.hash == "right" {
			t.Error("passwords are kept")
		}
	}

	plain := NewAsker(answers, Limits{})
	err = nil
	if _, err := plain.Ask(t.Context(), Question{User: "ann", Password: "right"}); err != nil {
		t.Error(err)
	}
	err = errAway
	if _, err := plain.Ask(t.Context(), Question{User: "ann", Password: "right"}); !errors.Is(err,
		sshd.ErrUndecided) {
		t.Errorf("without a cache: %v", err)
	}
}

// TestLimitsOfAsking: no more questions at once, or in a second, than is allowed, and none takes
// longer than its time. What is not asked is not decided.
func TestLimitsOfAsking(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	hangs := source(func(ctx context.Context, _ Question) (Answer, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-ctx.Done()
		return Answer{}, ctx.Err()
	})
	a := NewAsker(hangs, Limits{AtOnce: 2, Timeout: 200 * time.Millisecond})
	ended := make(chan error)
	for i := range 6 {
		go func() {
			_, err := a.Ask(t.Context(), Question{User: "ann", Password: "x",
				Remote: fmt.Sprintf("192.0.2.%d:1", i)})
			ended <- err
		}()
	}
	for range 6 {
		err := <-ended
		if says := fmt.Sprint(err); !errors.Is(err, sshd.ErrUndecided) ||
			!strings.Contains(says, "no answer within 200ms") &&
				!strings.Contains(says, "2 others were being asked about") {
			t.Error(err)
		}
	}
	if most.Load() > 2 {
		t.Errorf("%d were asked about at once", most.Load())
	}

	count := 0
	a = NewAsker(source(func(context.Context, Question) (Answer, error) {
		count++
		return Answer{}, nil
	}), Limits{Rate: 3, Timeout: 100 * time.Millisecond})
	began, undecided := time.Now(), 0
	for range 10 {
		if _, err := a.Ask(t.Context(), Question{User: "ann", Password: "x"}); err != nil {
			if !errors.Is(err, sshd.ErrUndecided) {
				t.Error(err)
			}
			undecided++
		}
	}
	if count > 4+int(3*time.Since(began).Seconds()) || count+undecided != 10 {
		t.Errorf("%d questions, %d undecided", count, undecided)
	}
}

// TestOneAddressDoesNotTakeAll: who guesses from one address, or one network of IPv6, has a quarter
// of the questions, and a user elsewhere is asked about at once. Nothing is left of either.
func TestOneAddressDoesNotTakeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Int64
		a := NewAsker(source(func(ctx context.Context, q Question) (Answer, error) {
			if q.User == "ann" {
				return Answer{}, nil
			}
			now.Add(1)
			defer now.Add(-1)
			<-ctx.Done()
			return Answer{}, ctx.Err()
		}), Limits{AtOnce: 8, Timeout: time.Minute})
		var group sync.WaitGroup
		for i := range 100 {
			for _, remote := range []string{"192.0.2.7:%d", "[2001:db8::%x]:22"} {
				group.Go(func() {
					if _, err := a.Ask(t.Context(), Question{User: "root", Password: "guess",
						Remote: fmt.Sprintf(remote, i+1)}); !errors.Is(err, sshd.ErrUndecided) {
						t.Error(err)
					}
				})
			}
		}
		synctest.Wait()
		if n := now.Load(); n != 4 {
			t.Errorf("two addresses are asked about %d times at once", n)
		}
		began := time.Now()
		if _, err := a.Ask(t.Context(), Question{User: "ann", Password: "x",
			Remote: "192.0.2.8:1"}); err != nil || time.Since(began) > time.Second {
			t.Errorf("a user elsewhere: %v after %s", err, time.Since(began))
		}
		group.Wait()
		if len(a.each.all) > 0 {
			t.Errorf("%d addresses are remembered", len(a.each.all))
		}
	})
}
