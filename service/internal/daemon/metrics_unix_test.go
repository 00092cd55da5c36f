//go:build unix

package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/store"
	"github.com/usftp/usftp/sftptest/opensshd"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	writeFile(t, filepath.Join(home, "a"), randomData(5000))
	file := filepath.Join(home, "usftpd.toml")
	writeFile(t, file, []byte(`listen = ["127.0.0.1:0"]
log_level = "quiet"
metrics = "192.0.2.1:0" # which the command line overrides
metrics_users = 1
[[users]]
name = "u"
root = "."
authorized_keys = "id.pub"
deny = ["mkdir"]
`))
	s := servetest.Start(t, home, "usftpd", "--config", file, "--metrics=:0")
	url := s.Greeting["metrics"]
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("metrics at %q", url)
	}
	if out, err := s.SFTP("u", key, "put a b\nget b c\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	stranger := opensshd.Keygen(t, filepath.Join(home, "stranger"))
	s.SFTP("u", stranger, "pwd\n")
	// Denied, far more often than is logged.
	s.SFTP("u", key, strings.Repeat("-mkdir d\n", 300))
	want := regexp.MustCompile(
		`(?s)usftp_files_total\{protocol="sftp"\} 2\n` +
			`.*usftp_logins_failed_total 1\n.*usftp_logins_total 2\n` +
			`.*usftp_read_bytes_total 5000\n.*usftp_requests_denied_total 300\n` +
			`.*usftp_user_failures_total\{user="u"\} 300\n` +
			`.*usftp_written_bytes_total 5000\n.*\ngo_goroutines \d`)
	var text []byte
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the metrics are\n%s", text)
		}
	})
	testenv.Until(t, "all is counted", func() bool { // the client is gone before the server has counted
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, err = io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("%s, %v", response.Status, err)
		}
		return want.Match(text)
	})
	if s.Log.String() != "" {
		t.Errorf("the log is to be quiet:\n%s", s.Log)
	}
}

// TestStoreIsUp: the metrics say whether the store answers.
func TestStoreIsUp(t *testing.T) {
	t.Parallel()
	away := fmt.Sprintf("postgres://usftpd@127.0.0.1:%d/usftpd", testenv.RefusedPort(t))
	for name, want := range map[string]string{away: "0", filepath.Join(t.TempDir(), "s.db"): "1"} {
		s, err := store.Open(t.Context(), name, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		m := newMetrics()
		m.asked(s)
		var text strings.Builder
		m.set.WritePrometheus(&text)
		if !strings.Contains(text.String(), "\nusftp_store_up "+want+"\n") {
			t.Errorf("%s:\n%s", name, text.String())
		}
	}
}
