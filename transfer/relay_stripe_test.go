package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// relayed copies files from one far host to another, with a pool of connections to each, and
// returns how long that took.
func relayed(t *testing.T, connections int, version string, files map[string][]byte,
	copyAll func(ctx context.Context, from, to pool.Host) error) (took time.Duration, opened int) {
	t.Helper()
	const trip = 400 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var hosts [2]pool.Host
		var far [2]*farHost
		for i := range hosts {
			h := &farHost{server: sftptest.NewServer(t, sftptest.Script{}), version: version,
				link: sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2, Window: 2 << 20}}
			first, further, end := h.open(t, pool.Config{Connections: connections})
			defer end()
			hosts[i], far[i] = pool.Host{Client: first, Name: fmt.Sprint("far", i),
				Pool: further}, h
		}
		far[0].server.Files.Mkdir("/from")
		far[1].server.Files.Mkdir("/to")
		for name, data := range files {
			far[0].server.Files.WriteFile("/from/"+name, data)
		}
		began := time.Now()
		if err := copyAll(t.Context(), hosts[0], hosts[1]); err != nil {
			t.Fatal(err)
		}
		took = time.Since(began)
		opened = len(far[0].server.Requests(wire.TypeOpen))
		for name, data := range files {
			if got, err := far[1].server.Files.ReadFile("/to/" + name); err != nil ||
				!bytes.Equal(got, data) {
				t.Errorf("%s differs: %v", name, err)
			}
		}
		time.Sleep(trip) // on a fake clock: files that were only read are closed without waiting
		if n := far[0].server.OpenHandles(); n > 0 {
			t.Errorf("%d handles of the source are open", n)
		}
		if left := far[0].most; left > 4 {
			t.Errorf("%d logged in at a time", left)
		}
	})
	return took, opened
}

// Between two far hosts a file uses several connections on both sides; from a host that counts
// reads it is read once.
func TestRelayOverLongLinks(t *testing.T) {
	files := map[string][]byte{"file": random(96 << 20)}
	one := func(ctx context.Context, from, to pool.Host) error {
		_, err := relayFile(ctx, from, "/from/file", to, "/to/file", transfer.Options{})
		return err
	}
	alone, _ := relayed(t, 1, "", files, one)
	several, opened := relayed(t, 0, "", files, one)
	if several > alone*3/4 || opened < 8 {
		t.Errorf("%v over one connection, %v over several; the source was opened %d times", alone,
			several, opened)
	}
	if _, opened := relayed(t, 0, "SSH-2.0-Sterling", files, one); opened != 1 {
		t.Errorf("a mailbox was opened %d times", opened)
	}
}

// The files of a tree between two hosts are spread over the connections of both.
func TestRelayedTreeSpreads(t *testing.T) {
	files := make(map[string][]byte)
	for i := range 40 {
		files[fmt.Sprint(i)] = random(3<<20 + i)
	}
	tree := func(ctx context.Context, from, to pool.Host) error {
		summary, err := relayTree(ctx, from, "/from/.", to, "/to", transfer.Options{})
		if err == nil && summary.Files != int64(len(files)) {
			err = fmt.Errorf("%+v", summary)
		}
		return err
	}
	alone, _ := relayed(t, 1, "", files, tree)
	several, _ := relayed(t, 0, "", files, tree)
	if several > alone*3/5 { // when connections are added depends on the order of goroutines, too
		several, _ = relayed(t, 0, "", files, tree)
	}
	if several > alone*3/5 {
		t.Errorf("%v over one connection, %v over several", alone, several)
	}
}
