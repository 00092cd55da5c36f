//go:build unix

package daemon

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/service/internal/status"
)

// limitedUser serves a user alice with more settings, and a file "big" of 2 MB for the client.
func limitedUser(t *testing.T, settings string) (s *servetest.Server, home, key, file,
	root string) {
	t.Helper()
	home, key = servetest.HomeWithKey(t)
	root = filepath.Join(home, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(home, "usftpd.toml")
	writeFile(t, file, []byte("listen = ['127.0.0.1:0']\n[store]\nfile = 'store.db'\n[[users]]\n"+
		"name = 'alice'\nroot = 'root'\nauthorized_keys = 'id.pub'\n"+settings+"\n"))
	writeFile(t, filepath.Join(home, "big"), randomData(2_000_000))
	writeFile(t, filepath.Join(home, "small"), randomData(600_000))
	return servetest.Start(t, home, "usftpd", "--config", file), home, key, file, root
}

// TestMaxFileSize: nothing makes a file larger, and of one that would be nothing stays.
func TestMaxFileSize(t *testing.T) {
	t.Parallel()
	s, _, key, _, root := limitedUser(t, "max_file_size = '1MB'")
	writeFile(t, filepath.Join(root, "old"), randomData(2_000_000))
	if out, err := s.SFTP("alice", key, "put small\nput small again\nget old back\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.SFTP("alice", key, "put big\n"); err == nil ||
		!strings.Contains(strings.ToLower(out), "failure") &&
			!strings.Contains(out, "larger than the server accepts") {
		t.Errorf("%v\n%s", err, out)
	}
	s.Wait("request denied", func(f map[string]any) bool {
		return f["by"] == "limit" && f["path"] == "/big"
	})
	client := aliceOn(t, dialTo(t, s), key)
	if err := client.Truncate("small", 1_000_001); err == nil {
		t.Error("SETSTAT makes a file larger")
	}
	f, err := client.OpenFile("small", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1_000_001); err == nil {
		t.Error("FSETSTAT makes a file larger")
	}
	if _, err := f.WriteAt([]byte("x"), 1_000_000); err == nil {
		t.Error("a write beyond the size")
	}
	f.Close()
	if f, err = client.OpenFile("again", os.O_WRONLY|os.O_APPEND, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(randomData(600_000)); err == nil {
		err = f.Close()
		if err == nil {
			t.Error("a file is appended to beyond the size")
		}
	}
	if info, err := os.Stat(filepath.Join(root, "again")); err != nil || info.Size() > 1_000_000 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := client.Stat("big"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is too large something stays: %v", err)
	}
	if out, err := s.Client("", "scp", append([]string{"-O"}, append(s.SSHFlags("-i", key),
		filepath.Join(filepath.Dir(root), "big"), "alice@127.0.0.1:big")...)...); err == nil {
		t.Errorf("scp:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(root, "big")); err == nil {
		t.Error("scp has made a file that is too large")
	}
}

// dialTo connects to a server.
func dialTo(t *testing.T, s *servetest.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestTransferQuota: no more than the quota goes in and out, also after a restart, and what is left
// of an upload can be gone on with in the next period.
func TestTransferQuota(t *testing.T) {
	t.Parallel()
	s, home, key, file, _ := limitedUser(t, "transfer_up = '1MB'\ntransfer_down = '1MB'\n"+
		"transfer_period = 'day'")
	if out, err := s.SFTP("alice", key, "put small\nget small back\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, command := range []string{"put small second\n", "get small second\n"} {
		if out, err := s.SFTP("alice", key, command); err == nil {
			t.Errorf("more than the quota moves:\n%s", out)
		}
	}
	s.Wait("request denied", func(f map[string]any) bool {
		return f["by"] == "quota" && f["request"] == "read"
	})
	s.Wait("request denied", func(f map[string]any) bool {
		return f["by"] == "quota" && f["request"] == "write" && f["path"] == "/second"
	})
	s.End(syscall.SIGTERM, 0)
	writeFile(t, file, append(readFile(t, file), "[admin]\n"...))
	s = servetest.Start(t, home, "usftpd", "--config", file, "--metrics=127.0.0.1:0")
	if out, err := s.SFTP("alice", key, "put small third\n"); err == nil {
		t.Errorf("a restart forgets what was moved:\n%s", out)
	}
	if out, err := s.SFTP("alice", key, "get small third\n"); err == nil {
		t.Errorf("a restart forgets what was moved:\n%s", out)
	}
	servetest.Same(t, randomData(600_000), filepath.Join(home, "back"))
	response, err := http.Get(s.Greeting["status"] + "api/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var shown status.Status
	if err := json.NewDecoder(response.Body).Decode(&shown); err != nil || len(shown.Users) != 1 {
		t.Fatalf("%v: %+v", err, shown)
	}
	if u := shown.Users[0]; u.MaxSent != 1_000_000 || u.MaxFetched != 1_000_000 ||
		u.Sent < 600_000 || u.Sent > u.MaxSent || u.Fetched < 600_000 || u.Fetched > u.MaxFetched {
		t.Errorf("the status shows %+v", u)
	}
	writeFile(t, file, []byte(strings.Replace(string(readFile(t, file)), "'day'", "'month'", 1)))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.WaitFor("reloaded", 1)
	if out, err := s.SFTP("alice", key, "put small fourth\n"); err != nil {
		t.Errorf("another period: %v\n%s", err, out)
	}
}
