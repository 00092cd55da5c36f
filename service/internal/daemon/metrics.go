package daemon

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/service/internal/hooks"
	"github.com/usftp/usftp/service/internal/store"
)

// metrics are the metrics for Prometheus. A nil *metrics counts nothing.
type metrics struct {
	listener net.Listener
	server   *http.Server
	ended    chan struct{}

	set                   *vm.Set
	loggedIn              atomic.Int64
	events                map[server.EventKind]*vm.Counter
	sftpFiles, scpFiles   *vm.Counter
	failed, read, written *vm.Counter
}

// newMetrics makes the counters; docs/service.md describes them.
func newMetrics() *metrics {
	vm.ExposeMetadata(true)
	set := vm.NewSet()
	bans := set.NewCounter("usftp_bans_total")
	m := &metrics{
		set: set,
		events: map[server.EventKind]*vm.Counter{
			server.LoggedIn:       set.NewCounter("usftp_logins_total"),
			server.LoginFailed:    set.NewCounter("usftp_logins_failed_total"),
			server.LoginRefused:   set.NewCounter("usftp_logins_refused_total"),
			server.AddressBanned:  bans,
			server.UserBanned:     bans,
			server.SessionRefused: set.NewCounter("usftp_sessions_refused_total"),
			server.SessionFailed:  set.NewCounter("usftp_sessions_failed_total"),
			server.CommandRefused: set.NewCounter("usftp_commands_refused_total"),
			server.RequestDenied:  set.NewCounter("usftp_requests_denied_total"),
			server.FileAbandoned:  set.NewCounter("usftp_files_abandoned_total"),
			server.ConnectionIdle: set.NewCounter("usftp_connections_idle_total"),
		},
		sftpFiles: set.NewCounter(`usftp_files_total{protocol="sftp"}`),
		scpFiles:  set.NewCounter(`usftp_files_total{protocol="scp"}`),
		failed:    set.NewCounter("usftp_files_failed_total"),
		read:      set.NewCounter("usftp_read_bytes_total"),
		written:   set.NewCounter("usftp_written_bytes_total"),
	}
	set.NewGauge("usftp_connections", func() float64 { return float64(m.loggedIn.Load()) })
	return m
}

// count updates the counters by an event. Load balancers' checks count nowhere.
func (m *metrics) count(e server.Event) {
	if e.Check {
		return
	}
	if c := m.events[e.Kind]; c != nil {
		c.Inc()
	}
	switch e.Kind {
	case server.LoggedIn:
		m.loggedIn.Add(1)
	case server.ConnectionClosed:
		m.loggedIn.Add(-1)
	case server.FileClosed:
		if e.Protocol == "scp" {
			m.scpFiles.Inc()
		} else {
			m.sftpFiles.Inc()
		}
	case server.FileFailed, server.CopyFailed:
		m.failed.Inc()
	case server.TreeChanged:
		if e.Err != nil { // it may not have been made
			break
		}
		m.set.GetOrCreateCounter(fmt.Sprintf(`usftp_changes_total{request=%q}`, e.Request)).Inc()
	case server.RequestDenied:
		if e.Protocol == "scp" { // otherwise nothing more is reported about the file
			m.failed.Inc()
		}
	}
	m.read.AddInt64(e.Read)
	m.written.AddInt64(e.Written)
}

// hook counts the outcome of an attempt to tell a hook.
func (m *metrics) hook(name string, outcome hooks.Outcome) {
	m.set.GetOrCreateCounter(fmt.Sprintf(`usftp_hooks_total{hook=%q,outcome=%q}`, name,
		outcome)).Inc()
}

// asked shows whether the store answers, and counts the statements that this node sends to it.
func (m *metrics) asked(s *store.Store) {
	m.set.NewGauge("usftp_store_up", func() float64 {
		if s.Down() {
			return 0
		}
		return 1
	})
	m.set.NewGauge("usftp_store_statements_total", func() float64 {
		return float64(s.Statements())
	})
}

// waiting shows how many events wait for each hook.
func (m *metrics) waiting(all []*hooks.Hook, s *store.Store) {
	for _, hook := range all {
		m.set.NewGauge(fmt.Sprintf(`usftp_hooks_waiting{hook=%q}`, hook.Name), func() float64 {
			return float64(s.Waiting()[hook.Name])
		})
	}
}

// metricsTimeout limits how long a client of the metrics may take for its request.
const metricsTimeout = 10 * time.Second

// serveMetrics starts serving Prometheus, if configured.
func (s *service) serveMetrics() (err error) {
	m := s.metrics
	if m == nil {
		return nil
	}
	if m.listener, err = s.Listen(s.started.metrics); err != nil {
		return err
	}
	address, ok := m.listener.Addr().(*net.TCPAddr)
	switch admin := s.started.admin; {
	case !ok || address.IP.IsLoopback():
	case admin == nil:
		s.Log.Warn("metrics are open to everyone who can reach the address", "address",
			address.String())
	case admin.Token == nil: // a name that is not this machine's, after all
		m.listener.Close()
		return fmt.Errorf("the status page is on %s, which others can reach: set token in [admin]",
			address)
	case !admin.TLS:
		s.Log.Warn("the token of the status page goes over the network as it is: set certificate "+
			"and key in [admin]", "address", address.String())
	}
	m.server = &http.Server{
		Handler: m.handler(), ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	serve, scheme := m.server.Serve, "http"
	if admin := s.started.admin; admin != nil {
		m.server.Handler = s.board.Handler(&admin.Access, m.handler())
		if admin.TLS {
			m.server.TLSConfig = admin.tls()
			serve = func(l net.Listener) error { return m.server.ServeTLS(l, "", "") }
			scheme = "https"
		}
		s.More = fmt.Sprintf("status        %s://%s/\n", scheme, m.listener.Addr())
	}
	s.More += fmt.Sprintf("metrics       %s://%s/metrics\n", scheme, m.listener.Addr())
	m.ended = make(chan struct{})
	go func() {
		serve(newAdmitting(m.listener))
		close(m.ended)
	}()
	return nil
}

// handler serves the metrics.
func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		m.set.WritePrometheus(w)
		vm.WriteProcessMetrics(w)
	})
	return mux
}

func (m *metrics) close() {
	if m != nil {
		m.server.Close()
		<-m.ended
	}
}
