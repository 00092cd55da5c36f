package daemon

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/usftp/usftp/internal/site"
)

// metrics are the metrics for Prometheus. A nil *metrics counts nothing.
type metrics struct {
	listener net.Listener
	server   *http.Server
	ended    chan struct{}

	set                   *vm.Set
	loggedIn              atomic.Int64
	events                map[string]*vm.Counter // by the log's message
	sftpFiles, scpFiles   *vm.Counter
	failed, read, written *vm.Counter
}

// newMetrics makes the counters; docs/service.md describes them.
func newMetrics() *metrics {
	vm.ExposeMetadata(true)
	set := vm.NewSet()
	m := &metrics{
		set: set,
		events: map[string]*vm.Counter{
			"logged in":              set.NewCounter("usftp_logins_total"),
			"login failed":           set.NewCounter("usftp_logins_failed_total"),
			"address banned":         set.NewCounter("usftp_bans_total"),
			"session refused":        set.NewCounter("usftp_sessions_refused_total"),
			"session failed":         set.NewCounter("usftp_sessions_failed_total"),
			"a command was refused":  set.NewCounter("usftp_commands_refused_total"),
			"request denied":         set.NewCounter("usftp_requests_denied_total"),
			"file abandoned":         set.NewCounter("usftp_files_abandoned_total"),
			"idle connection closed": set.NewCounter("usftp_connections_idle_total"),
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

// count updates the counters by a log record.
func (m *metrics) count(e logEvent) {
	if m == nil {
		return
	}
	if c := m.events[e.message]; c != nil {
		c.Inc()
	}
	switch e.message {
	case "logged in":
		m.loggedIn.Add(1)
	case "connection closed":
		m.loggedIn.Add(-1)
	case "file closed":
		if e.scp {
			m.scpFiles.Inc()
		} else {
			m.sftpFiles.Inc()
		}
	case "file failed", "scp failed":
		m.failed.Inc()
	case "tree changed":
		m.set.GetOrCreateCounter(fmt.Sprintf(`usftp_changes_total{request=%q}`, e.request)).Inc()
	case "request denied":
		if e.scp { // otherwise nothing more is logged about the file
			m.failed.Inc()
		}
	}
	m.read.AddInt64(e.read)
	m.written.AddInt64(e.written)
}

// metricsTimeout limits how long a client of the metrics may take for its request.
const metricsTimeout = 10 * time.Second

// serveMetrics starts serving Prometheus, if configured.
func (s *service) serveMetrics() (err error) {
	m := s.metrics
	if m == nil {
		return nil
	}
	if m.listener, err = site.Listen(s.started.metrics); err != nil {
		return err
	}
	if address, ok := m.listener.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() {
		s.Log.Warn("metrics are open to everyone who can reach the address", "address",
			address.String())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		m.set.WritePrometheus(w)
		vm.WriteProcessMetrics(w)
	})
	m.server = &http.Server{
		Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	s.More = fmt.Sprintf("metrics       http://%s/metrics\n", m.listener.Addr())
	m.ended = make(chan struct{})
	go func() {
		m.server.Serve(m.listener)
		close(m.ended)
	}()
	return nil
}

func (m *metrics) close() {
	if m != nil {
		m.server.Close()
		<-m.ended
	}
}
