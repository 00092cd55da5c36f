package transfer_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// slowSync runs a sync to a host that takes an hour to create a file. during is called while it
// lasts, in a bubble.
func slowSync(t *testing.T, during func(server *sftptest.Scripted, dial func() pool.Host)) error {
	t.Helper()
	server := sftptest.NewServer(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeOpen && r.Stream == 1 && strings.Contains(r.Path, "slow") {
			return []sftptest.Action{sftptest.Delay(time.Hour)}
		}
		return nil
	}})
	dial := func() pool.Host {
		t.Helper()
		stream := server.Dial(sftptest.LinkConfig{})
		client, err := usftp.NewClientPipe(stream, stream, usftp.WithServerVersion("SSH-2.0-OpenSSH_9.6"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		return pool.Host{Client: client, Name: "far"}
	}
	src := t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "slow"), []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}
	host := dial()
	ended := make(chan error, 1)
	go func() {
		_, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src), transfer.SyncOptions{})
		ended <- err
	}()
	during(server, dial)
	return <-ended
}

// A lock is renewed as long as its run lasts, however long that is, and keeps others out.
func TestSyncLockIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := slowSync(t, func(server *sftptest.Scripted, dial func() pool.Host) {
			other, src := dial(), t.TempDir()
			before := time.Time{}
			for range 5 {
				time.Sleep(transfer.LockStale)
				var holder transfer.Holder
				data, err := server.Files.ReadFile("/dst/" + transfer.LockName)
				if err == nil {
					err = json.Unmarshal(data, &holder)
				}
				if err != nil || !holder.Renewed.After(before) || time.Since(holder.Renewed) > 2*time.Minute {
					t.Errorf("the lock was renewed at %v, and now it is %v: %v", holder.Renewed, time.Now(), err)
				}
				before = holder.Renewed
				_, err = transfer.Sync(t.Context(), transfer.Remote(other, "/dst"), transfer.Local(src), transfer.SyncOptions{})
				var locked *transfer.LockedError
				if !errors.As(err, &locked) || locked.Age > 2*time.Minute {
					t.Errorf("a second run: %v", err)
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A run whose lock somebody else has taken over, since it could not renew it, stops, and leaves the
// other's lock alone.
func TestSyncLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = `{"host":"alpha","pid":7,"id":"other"}`
		var server *sftptest.Scripted
		began := time.Now()
		err := slowSync(t, func(s *sftptest.Scripted, _ func() pool.Host) {
			server = s
			time.Sleep(30 * time.Second)
			s.Files.WriteFile("/dst/"+transfer.LockName, []byte(other))
		})
		if err == nil || !strings.Contains(err.Error(), "taken over the lock") {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("it went on for %v", took)
		}
		if data, err := server.Files.ReadFile("/dst/" + transfer.LockName); err != nil || string(data) != other {
			t.Errorf("the other's lock is %q, %v", data, err)
		}
		if server.Files.Exists("/dst/slow") {
			t.Error("it went on to copy")
		}
	})
}
