package transfer_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestEndAfterAFailure: a copy that ends before its time says why, even if a file had failed before:
// otherwise it would seem that only that one is missing.
func TestEndAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		server := sftptest.NewServer(t, sftptest.Script{
			Intercept: func(r sftptest.Request) []sftptest.Action {
				switch {
				case r.Type == wire.TypeOpen && r.Path == "/from/refused":
					return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
				case r.Type == wire.TypeRead:
					return []sftptest.Action{sftptest.Delay(time.Hour)}
				}
				return nil
			}})
		server.Files.Mkdir("/from")
		server.Files.WriteFile("/from/refused", nil)
		server.Files.WriteFile("/from/late", []byte("contents"))
		end := server.Dial(sftptest.LinkConfig{})
		host := connect(t, end)
		host.Redial = func(context.Context) (pool.Host, error) {
			return pool.Host{}, errors.New("no route to host")
		}
		var o transfer.TreeOptions
		o.Retries = 2
		o.Events = func(e transfer.Event) {
			if e.Kind == transfer.Failed {
				time.AfterFunc(time.Second, func() { end.Close() })
			}
		}
		to := filepath.Join(dir, "to")
		s, err := transfer.CopyTree(t.Context(), transfer.Local(to), transfer.Remote(host, "/from"), o)
		if err == nil || !strings.Contains(err.Error(), "no route to host") || s.Failed != 1 {
			t.Errorf("%v: %+v", err, s.Totals)
		}
	})
}
