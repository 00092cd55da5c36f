//go:build unix

package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
)

// TestReloadUnderLoad: while clients log in, write, read and remove, the settings are read again
// and again, with other users, quotas and keys each time, also by signals that come at once. No
// client notices, and what was reloaded last is in effect.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, "proxy_protocol = ['127.0.0.1']\n[store]\n")
	first := string(readFile(t, file))
	other := strings.NewReplacer("1MB", "2MB", `"bob"
root`, `"carol"
root`, "[store]", "[limits]\nsessions = 50\n[store]").Replace(first)
	if !strings.Contains(other, "carol") || !strings.Contains(other, "2MB") {
		t.Fatalf("the other settings:\n%s", other)
	}
	s := servetest.Start(t, home, "usftpd", "--config", file)
	work := func(address, name string, data []byte) error {
		conn, err := loginAs(t, from(t, s, address), "alice", key)
		if err != nil {
			return err
		}
		defer conn.Close()
		client, err := usftp.NewClient(conn)
		if err == nil {
			err = putFile(client, name, data)
		}
		if err != nil {
			return err
		}
		got, err := getFile(client, name)
		if err == nil && !bytes.Equal(got, data) {
			err = fmt.Errorf("%d bytes are there", len(got))
		}
		return errors.Join(err, client.Remove(name))
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var served atomic.Int64
	for i := range 3 {
		clients.Go(func() {
			name, data := fmt.Sprint("file", i), randomData(100_000+i)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := work(fmt.Sprint("192.0.2.", 10+i), name, data); err != nil {
					t.Errorf("during a reload: %v", err)
					return
				}
				served.Add(1)
			}
		})
	}
	const reloads = 10
	for i := range reloads {
		writeFile(t, file, []byte([]string{other, first}[i%2]))
		s.Cmd.Process.Signal(syscall.SIGHUP)
		s.Cmd.Process.Signal(syscall.SIGHUP)
		s.WaitFor("reloaded", i+1)
		testenv.Until(t, "a client is served", func() bool { return served.Swap(0) > 0 || t.Failed() })
	}
	close(stop)
	clients.Wait()
	enters := func(user string) bool {
		conn, err := loginAs(t, from(t, s, "192.0.2.20"), user, key)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	// Of two signals at once, one or two reloads come.
	testenv.Until(t, "bob is back, and carol is gone", func() bool {
		return enters("bob") && !enters("carol")
	})
	if entries, err := filepath.Glob(filepath.Join(home, "alice", "*")); err != nil ||
		len(entries) > 0 {
		t.Errorf("what is left: %q, %v", entries, err)
	}
	s.End(syscall.SIGTERM, 0)
}

// TestReloadDuringStart: a start that takes long, since storage is slow, is not ended by a signal
// that asks for a reload.
func TestReloadDuringStart(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	started := make(chan *os.Process, 1)
	var once sync.Once
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { (<-started).Signal(syscall.SIGHUP) })
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(storage.Close)
	file := filepath.Join(home, "usftpd.toml")
	writeFile(t, file, fmt.Appendf(nil, `listen = ["127.0.0.1:0"]
host_keys = ["host_key"]
[storage]
endpoint = %q
path_style = true
[[users]]
name = "alice"
root = "s3://bucket"
authorized_keys = %q
`, storage.URL, key+".pub"))
	cmd := exec.CommandContext(t.Context(), "usftpd", "--config", file)
	cmd.Env = append(os.Environ(), "HOME="+home, "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started <- cmd.Process
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 ||
		!strings.Contains(said.String(), "s3://bucket") {
		t.Errorf("%v\n%s", err, &said)
	}
}
