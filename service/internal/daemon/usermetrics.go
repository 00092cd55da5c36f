package daemon

import (
	"strings"
	"sync"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/usftp/usftp/server"
)

// userMetrics are metrics of each user. Prometheus keeps a series for each value of a label for
// long, so that only so many users have one; the others share "other".
type userMetrics struct {
	set  *vm.Set
	most int

	mu    sync.Mutex
	users map[string]*userCounters
}

const otherUsers = "other"

type userCounters struct {
	logins, failures, files, read, written *vm.Counter
	connections                            *vm.Counter // which counts down, too
}

func newUserMetrics(set *vm.Set, most int) *userMetrics {
	return &userMetrics{set: set, most: most, users: map[string]*userCounters{}}
}

// of returns the counters of a user who has logged in.
func (m *userMetrics) of(user string) *userCounters {
	user = strings.ToValidUTF8(user, "\uFFFD") // as the label has it
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.users[user]
	if c == nil && user != otherUsers && len(m.users) >= m.most {
		user = otherUsers
		c = m.users[user]
	}
	if c == nil {
		label := `{user="` + labels.Replace(user) + `"}`
		counter := func(name string) *vm.Counter { return m.set.GetOrCreateCounter(name + label) }
		c = &userCounters{counter("usftp_user_logins_total"), counter("usftp_user_failures_total"),
			counter("usftp_user_files_total"), counter("usftp_user_read_bytes_total"),
			counter("usftp_user_written_bytes_total"), &vm.Counter{}}
		m.set.NewGauge("usftp_user_connections"+label, func() float64 {
			return float64(int64(c.connections.Get()))
		})
		m.users[user] = c
	}
	return c
}

// labels writes the value of a label as Prometheus reads it.
var labels = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// count updates the counters by an event. A client that has not logged in may use any name.
func (m *userMetrics) count(e server.Event) {
	if e.User == "" || e.Kind == server.LoginFailed || e.Kind == server.LoginRefused ||
		e.Kind == server.UserBanned {
		return
	}
	c := m.of(e.User)
	switch e.Kind {
	case server.LoggedIn:
		c.logins.Inc()
		c.connections.Inc()
	case server.ConnectionClosed:
		c.connections.Dec()
	case server.FileClosed:
		c.files.Inc()
	case server.FileAbandoned, server.FileFailed, server.CopyFailed, server.RequestDenied,
		server.SessionRefused, server.SessionFailed, server.CommandRefused:
		c.failures.Inc()
	}
	c.read.AddInt64(e.Read)
	c.written.AddInt64(e.Written)
}
