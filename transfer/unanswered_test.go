package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
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

// TestUnansweredLookup: a host that lives, but never answers a question about one file, is asked
// again over a second connection, and then given up, with the file's name.
func TestUnansweredLookup(t *testing.T) {
	for _, test := range []struct {
		verb string
		way
		kind wire.Type
		took time.Duration // the two connections together
	}{
		{"cp", download, wire.TypeLstat, 20 * time.Minute},
		{"cp", download, wire.TypeReaddir, 2 * time.Hour},
		{"sync", download, wire.TypeLstat, 20 * time.Minute},
		{"sync", download, wire.TypeReaddir, 2 * time.Hour},
		{"sync", upload, wire.TypeLstat, 20 * time.Minute},
		{"sync", upload, wire.TypeReaddir, 2 * time.Hour},
	} {
		t.Run(test.verb+" "+test.way.String()+" "+test.kind.String(), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				unanswered(t, dir, test.verb, test.way, test.kind, test.took)
			})
		})
	}
}

func unanswered(t *testing.T, dir, verb string, direction way, kind wire.Type,
	least time.Duration) {
	server := sftptest.NewServer(t, sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == kind && path.Base(r.Path) == "dead" {
				return []sftptest.Action{sftptest.Delay(1000 * time.Hour)}
			}
			return nil
		}})
	dials := 0
	dial := func(context.Context) (pool.Host, error) {
		dials++
		end := server.Dial(sftptest.LinkConfig{ToServer: time.Millisecond})
		client, err := usftp.NewClientPipe(end, end,
			usftp.WithKeepalive(func(context.Context) error { return nil }))
		if err == nil {
			t.Cleanup(func() { client.Close() })
		}
		return pool.Host{Client: client, Name: "h"}, err
	}
	host, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host.Redial = dial
	from, to := filepath.Join(dir, "from"), "/to"
	if direction == download {
		from, to = "/from", filepath.Join(dir, "to")
	}
	for _, err := range []error{os.MkdirAll(filepath.Join(dir, "from", "dead"), 0o755),
		os.WriteFile(filepath.Join(dir, "from", "file"), []byte("contents"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tree := range []string{"/from", "/to"} {
		server.Files.Mkdir(tree)
		server.Files.Mkdir(tree + "/dead")
		server.Files.WriteFile(tree+"/file", []byte("contents"))
	}
	dst, src := direction.endpoints(host, host, from, to, nil, nil)
	o := transfer.TreeOptions{}
	o.Retries = 5
	var said []string
	o.Events = func(e transfer.Event) {
		if e.Kind == transfer.Retried || e.Kind == transfer.Renewed {
			said = append(said, e.Message)
		}
	}
	began := time.Now()
	if verb == "cp" {
		_, err = transfer.CopyTree(t.Context(), dst, src, o)
	} else {
		_, err = transfer.Sync(t.Context(), dst, src, transfer.SyncOptions{TreeOptions: o})
	}
	took := time.Since(began)
	var stall *usftp.StallError
	where := path.Join(map[way]string{upload: "/to", download: "/from"}[direction], "dead")
	request := fmt.Sprintf("no reply to %v %q for %v", kind, where, least/2)
	if !errors.As(err, &stall) || !strings.Contains(err.Error(), request) || dials != 2 ||
		took < least || took > least+time.Minute {
		t.Errorf("%v after %v and %d logins", err, took, dials)
	}
	if len(said) != 2 || !strings.HasPrefix(said[0], "h: "+request+"; reconnecting in ") {
		t.Errorf("it said %q", said)
	}
}
