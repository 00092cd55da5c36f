package sshd

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/server"
)

// user is a connection of which only the user's name is asked.
type user struct{ ssh.ConnMetadata }

func (user) User() string { return "u" }

// TestNoWayAroundTheBan: only what has been counted already makes a failed login count for less,
// and names of methods take little memory.
func TestNoWayAroundTheBan(t *testing.T) {
	wrong := errors.New("wrong")
	for _, test := range []struct {
		methods []string
		err     error
		want    float64
	}{
		{[]string{"publickey"}, wrong, wrongLogin},
		{[]string{"publickey", strings.Repeat("made up", 1000)}, wrong, wrongLogin},
		{[]string{"publickey", "keyboard-interactive"}, wrong, wrongLogin}, // left unanswered
		{[]string{"keyboard-interactive"}, wrong, wrongLogin},
		{[]string{"password"}, punished{wrong}, 0},
		{nil, nil, noLogin},
	} {
		a := attempts{reports: &server.Reporter{Logger: slog.New(slog.DiscardHandler)}}
		log := a.noting(&transport.ServerConfig{}).AuthLog
		log(user{}, "none", wrong)
		for _, method := range test.methods {
			log(user{}, method, test.err)
		}
		conn := &connection{}
		conn.heard.Store(true)
		if got := a.weight(conn, wrong); got != test.want {
			t.Errorf("%.50q: it counts for %v, want %v", test.methods, got, test.want)
		}
		if held := strings.Join(a.methods, ","); len(held) > 100 {
			t.Errorf("%d bytes of names are held", len(held))
		}
	}
}

// TestQueueForPlaces: a place that is given back goes to the one who has waited longest and may
// have it, and wakes nobody else.
func TestQueueForPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(NewBanList())
		limits := &loginLimits{start: 2, full: 2, each: 1, stale: time.Hour, timeout: time.Hour}
		address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }
		var served []int
		places := make(chan *place, 100)
		enter := func(i int) {
			p, reason := g.begin(address(i), limits, func() {})
			if reason != "" {
				t.Errorf("%d: %s", i, reason)
			}
			served = append(served, i)
			places <- p
		}
		enter(1)
		enter(2)
		for _, i := range []int{3, 1, 4, 5, 6} { // 1 has a place already, and may have no second
			go enter(i)
			synctest.Wait()
		}
		first, second := <-places, <-places
		g.end(second)
		synctest.Wait()
		g.end(<-places)
		synctest.Wait()
		if want := []int{1, 2, 3, 4}; !slices.Equal(served, want) {
			t.Errorf("served are %v, want %v", served, want)
		}
		g.end(first) // now 1's second connection is the one that has waited longest
		synctest.Wait()
		for range 3 {
			g.end(<-places)
			synctest.Wait()
		}
		if want := []int{1, 2, 3, 4, 1, 5, 6}; !slices.Equal(served, want) {
			t.Errorf("served are %v, want %v", served, want)
		}
		if g.queue.Len() != 0 || len(g.queued) != 0 {
			t.Errorf("%d still wait, %v", g.queue.Len(), g.queued)
		}
	})
}
