package daemon

import (
	"bufio"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/servetest"
)

// TestManyConnectionsToMetrics: who opens connections and says nothing has some, and keeps nobody
// else from the metrics.
func TestManyConnectionsToMetrics(t *testing.T) {
	t.Parallel()
	home, _ := servetest.HomeWithKey(t)
	file := filepath.Join(home, "usftpd.toml")
	writeFile(t, file, []byte(`listen = ["127.0.0.1:0"]
metrics = "127.0.0.1:0"
[admin]
[store]
`))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	address := strings.TrimSuffix(strings.TrimPrefix(s.Greeting["metrics"], "http://"), "/metrics")
	dial := func(from string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(metricsTimeout / 2)) // before silent ones are closed
		return conn
	}
	answer := func(conn net.Conn) (string, error) {
		io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"+
			"Connection: close\r\n\r\n")
		return bufio.NewReader(conn).ReadString('\n')
	}
	var silent []net.Conn
	for range mostOfOne {
		silent = append(silent, dial("127.0.0.1"))
	}
	if text, err := answer(dial("127.0.0.1")); err == nil {
		t.Errorf("one more is answered: %q", text)
	}
	if text, err := answer(dial("127.0.0.2")); err != nil || !strings.Contains(text, " 200 ") {
		t.Errorf("somebody else: %q, %v", text, err)
	}
	if text, err := answer(silent[0]); err != nil || !strings.Contains(text, " 200 ") {
		t.Errorf("one of those: %q, %v", text, err)
	}
	io.Copy(io.Discard, silent[0]) // until it is closed
	for began := time.Now(); ; {
		text, err := answer(dial("127.0.0.1"))
		if err == nil && strings.Contains(text, " 200 ") {
			break
		}
		if time.Since(began) > metricsTimeout/2 {
			t.Fatalf("the place of one that has gone: %q, %v", text, err)
		}
	}
}
