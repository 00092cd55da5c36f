package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestUnansweredLookup: a host that lives, but never answers a question about one directory, is asked
// again over a second connection, and for the data of one file as often as usftp reconnects, or less
// often once nothing else is in progress. Then the directory or file has failed, and all others are
// copied, also if the host answers nothing after the question.
func TestUnansweredLookup(t *testing.T) {
	for _, verb := range []string{"cp", "sync"} {
		for _, direction := range []way{upload, download} {
			for kind, took := range map[wire.Type]time.Duration{ // by all connections together
				wire.TypeRead:    5 * time.Minute,
				wire.TypeLstat:   20 * time.Minute,
				wire.TypeOpendir: 2 * time.Hour,
				wire.TypeReaddir: 2 * time.Hour,
			} {
				for _, stops := range []bool{false, true} {
					if direction == upload && (verb == "cp" || kind == wire.TypeRead) {
						continue // it asks nothing about directories, and reads nothing
					}
					u := unanswered{verb, direction, kind, stops}
					t.Run(fmt.Sprintf("%v %v %v %v", u.verb, u.way, u.kind, u.stops), func(t *testing.T) {
						dir := t.TempDir()
						synctest.Test(t, func(t *testing.T) { u.run(t, dir, took) })
					})
				}
			}
		}
	}
}

// unanswered is a case of TestUnansweredLookup.
type unanswered struct {
	verb string
	way
	kind  wire.Type
	stops bool // nothing after the question is answered
}

// asks reports whether a request is the one that is never answered.
func (u unanswered) asks(r sftptest.Request) bool {
	name := r.Path
	if u.kind == wire.TypeRead {
		name = path.Dir(name)
	}
	return r.Type == u.kind && path.Base(name) == "dead"
}

func (u unanswered) run(t *testing.T, dir string, least time.Duration) {
	var stuck atomic.Bool
	server := sftptest.NewServer(t, sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			dead := u.asks(r)
			if dead && u.stops {
				stuck.Store(true)
			}
			if dead || stuck.Load() {
				return []sftptest.Action{sftptest.Delay(1000 * time.Hour)}
			}
			return nil
		}})
	dials := 0
	host := redialed(t, "far", func() (*usftp.Client, error) {
		dials++
		stuck.Store(false)
		end := server.Dial(sftptest.LinkConfig{ToServer: time.Millisecond})
		return usftp.NewClientPipe(end, end,
			usftp.WithKeepalive(func(context.Context) error { return nil }))
	})
	from, to := filepath.Join(dir, "from"), "/to"
	if u.way == download {
		from, to = "/from", filepath.Join(dir, "to")
	}
	for _, tree := range []string{"/from", "/to"} {
		server.Files.Mkdir(tree)
	}
	names := []string{"a", "b", "c", "dead", "e", "f", "g"}
	for _, name := range names {
		err := os.MkdirAll(filepath.Join(dir, "from", name), 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "from", name, "file"), []byte("contents"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		server.Files.Mkdir("/from/" + name)
		server.Files.Mkdir("/to/" + name)
		server.Files.WriteFile("/from/"+name+"/file", []byte("contents"))
	}
	dst, src := u.endpoints(host, host, from, to, nil, nil)
	o := transfer.TreeOptions{}
	o.Retries = 5
	var said []string
	o.Events = func(e transfer.Event) {
		if e.Kind == transfer.Retried || e.Kind == transfer.Renewed {
			said = append(said, e.Message)
		}
	}
	var err error
	began := time.Now()
	if u.verb == "cp" {
		_, err = transfer.CopyTree(t.Context(), dst, src, o)
	} else {
		_, err = transfer.Sync(t.Context(), dst, src, transfer.SyncOptions{TreeOptions: o})
	}
	took := time.Since(began)
	var stall *usftp.StallError
	where := path.Join(map[way]string{upload: "/to", download: "/from"}[u.way], "dead")
	request, logins := fmt.Sprintf("no reply to %v %q for %v", u.kind, where, least/2), 4
	says := request
	most := least*3/2 + time.Minute
	if u.kind == wire.TypeRead {
		request, says, logins = where, "connection lost", 7
		least = 3 * time.Minute // see pool/deadly.go
	}
	if !errors.As(err, &stall) || !strings.Contains(err.Error(), request) || dials > logins ||
		took < least || took > most {
		t.Errorf("%v after %v and %d logins; it said %q", err, took, dials, said)
	}
	if len(said) < 2 || !strings.HasPrefix(said[0], "far: "+says+"; reconnecting in ") {
		t.Errorf("it said %q", said)
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, "to", name, "file"))
		if u.way == upload {
			data, err = server.Files.ReadFile("/to/" + name + "/file")
		}
		if string(data) != "contents" && name != "dead" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}
