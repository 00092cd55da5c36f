package daemon

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
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
		conn.SetDeadline(time.Now().Add(testenv.Patience(t)))
		return conn
	}
	answer := func(conn net.Conn) (string, error) {
		io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"+
			"Connection: close\r\n\r\n")
		return bufio.NewReader(conn).ReadString('\n')
	}
	answered := func(conn net.Conn) bool {
		text, err := answer(conn)
		return err == nil && strings.Contains(text, " 200 ")
	}
	refused := func(conn net.Conn) bool {
		conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	var silent []net.Conn
	// On a busy machine the server may have closed silent ones before all are there.
	testenv.Until(t, "all are open before one is closed", func() bool {
		for _, conn := range silent {
			conn.Close()
		}
		silent = nil
		testenv.Until(t, "the places are free", func() bool { return answered(dial("127.0.0.1")) })
		began := time.Now()
		for range mostOfOne {
			silent = append(silent, dial("127.0.0.1"))
		}
		more, other := answered(dial("127.0.0.1")), answered(dial("127.0.0.2"))
		if time.Since(began) > metricsTimeout/2 {
			return false
		}
		if more && slices.ContainsFunc(silent, refused) {
			return false // another one, of before, still had its place
		}
		if more {
			t.Error("one more is answered")
		}
		if !other {
			t.Error("somebody else is not answered")
		}
		return true
	})
	silent[0].Close()
	testenv.Until(t, "the place of one that has gone is free", func() bool {
		return answered(dial("127.0.0.1"))
	})
}
