package transfer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestHugeReply: a server whose replies claim to have 2 GiB, on each new connection, is given up
// after one attempt to reconnect. All of --retries would take half a minute.
func TestHugeReply(t *testing.T) {
	verbs := map[string]func(context.Context, transfer.Endpoint, transfer.Endpoint,
		transfer.TreeOptions) (transfer.Summary, error){
		"cp": transfer.CopyTree,
		"sync": func(ctx context.Context, dst, src transfer.Endpoint,
			o transfer.TreeOptions) (transfer.Summary, error) {
			return transfer.Sync(ctx, dst, src, transfer.SyncOptions{TreeOptions: o, NoLock: true})
		},
	}
	both := []wire.Type{wire.TypeStat, wire.TypeRealpath, wire.TypeOpen}
	for direction, kinds := range map[way][]wire.Type{
		download: append(both, wire.TypeOpendir, wire.TypeReaddir, wire.TypeRead, wire.TypeFstat),
		upload:   append(both, wire.TypeWrite, wire.TypeClose),
	} {
		for verb, run := range verbs {
			for _, kind := range kinds {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					hugeReply(t, dir, verb, direction, kind, run)
				})
			}
		}
	}
}

func hugeReply(t *testing.T, dir, verb string, direction way, kind wire.Type,
	run func(context.Context, transfer.Endpoint, transfer.Endpoint,
		transfer.TreeOptions) (transfer.Summary, error)) {
	server := sftptest.NewScripted(sftptest.Script{Faults: []sftptest.Fault{
		{On: kind, Do: sftptest.Length(1 << 31)}}})
	defer server.Close()
	dials := 0
	host := redialed(t, "far", func() (*usftp.Client, error) {
		dials++
		end := server.Dial(sftptest.LinkConfig{ToServer: time.Millisecond})
		return usftp.NewClientPipe(end, end)
	})
	from, to := filepath.Join(dir, "from"), "/to"
	if direction == download {
		from, to = "/from", filepath.Join(dir, "to")
	}
	for _, err := range []error{os.Mkdir(filepath.Join(dir, "from"), 0o755),
		os.WriteFile(filepath.Join(dir, "from", "file"), []byte("contents"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	server.Files.WriteFile("/from/file", []byte("contents"))
	server.Files.Mkdir("/to")
	dst, src := direction.endpoints(host, host, from, to, nil, nil)
	o := transfer.TreeOptions{}
	o.Retries = 5
	began := time.Now()
	_, err := run(t.Context(), dst, src, o)
	var broke *usftp.ProtocolError
	if took := time.Since(began); took > 3*time.Second || dials > 3 || !errors.As(err, &broke) ||
		!strings.Contains(err.Error(), "21474836") {
		t.Errorf("%s, %v, %v: %v after %v and %d logins", verb, direction, kind, err, took, dials)
	}
}
