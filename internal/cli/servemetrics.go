package cli

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what Prometheus asks for. A nil *metrics counts nothing.
type metrics struct {
	registry *prometheus.Registry
	listener net.Listener
	server   *http.Server
	ended    chan struct{}

	loggedIn              prometheus.Gauge
	events                map[string]prometheus.Counter // by the log's message
	files                 *prometheus.CounterVec        // by protocol
	failed, read, written prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	m.loggedIn = prometheus.NewGauge(prometheus.GaugeOpts{Name: "usftp_connections", Help: "Connections of users that are logged in."})
	m.files = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "usftp_files_total", Help: "Files that were closed after a transfer."}, []string{"protocol"})
	m.registry.MustRegister(m.loggedIn, m.files)
	m.events = map[string]prometheus.Counter{
		"logged in":              counter("usftp_logins_total", "Connections that have logged in."),
		"login failed":           counter("usftp_logins_failed_total", "Connections that ended before anybody was logged in."),
		"address banned":         counter("usftp_bans_total", "Bans of addresses, and prolongations of bans, for wrong passwords."),
		"session refused":        counter("usftp_sessions_refused_total", "Sessions that were one too many."),
		"a command was refused":  counter("usftp_commands_refused_total", "Commands that clients asked for and that are not served."),
		"session ended badly":    counter("usftp_sessions_failed_total", "Sessions that broke off or broke the protocol."),
		"idle connection closed": counter("usftp_connections_idle_total", "Connections closed because nothing moved on them."),
	}
	m.failed = counter("usftp_files_failed_total", "Files that could not be closed well, or copied by scp.")
	m.read = counter("usftp_read_bytes_total", "Bytes that clients have read from files, counted when the file is closed.")
	m.written = counter("usftp_written_bytes_total", "Bytes that clients have written to files, counted when the file is closed.")
	return m
}

// count counts what a record of the log says.
func (m *metrics) count(e serveEvent) {
	if m == nil {
		return
	}
	if c := m.events[e.message]; c != nil {
		c.Inc()
	}
	switch e.message {
	case "logged in":
		m.loggedIn.Inc()
	case "connection closed":
		m.loggedIn.Dec()
	case "file closed":
		protocol := "sftp"
		if e.scp {
			protocol = "scp"
		}
		m.files.WithLabelValues(protocol).Inc()
	case "file closed badly", "scp failed":
		m.failed.Inc()
	}
	m.read.Add(float64(e.read))
	m.written.Add(float64(e.written))
}

// metricsTimeout bounds what a client of the metrics may take for its request.
const metricsTimeout = 10 * time.Second

// serveMetrics starts to answer Prometheus, where that is asked for.
func (s *site) serveMetrics() (err error) {
	m := s.metrics
	if m == nil {
		return nil
	}
	if m.listener, err = listenOn(s.settings.metrics); err != nil {
		return err
	}
	if address, ok := m.listener.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() {
		s.log.Warn("metrics are served to a network, to whoever asks", "address", address.String())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	m.server = &http.Server{
		Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
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
