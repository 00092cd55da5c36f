package usftp_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestOurServer: package server over both of its backends, which carries requests out side by side.
func TestOurServer(t *testing.T) {
	dir, err := osfs.New(t.TempDir())
	ok(t, err)
	for name, backend := range map[string]server.FS{"memfs": memfs.New(64 << 20), "osfs": dir} {
		t.Run(name, func(t *testing.T) {
			client, end := net.Pipe()
			served := make(chan error, 1)
			go func() { served <- server.Serve(context.Background(), end, backend, nil) }()
			c := must[*usftp.Client](t)(usftp.NewClientPipe(client, client,
				usftp.WithServerVersion("SSH-2.0-usftp")))
			ok(t, c.Mkdir("/d"))
			workout(t, c, "/d")
			items := func(yield func(int) bool) {
				for i := 0; i < 3000 && yield(i); i++ {
				}
			}
			for result := range usftp.Batch(items, 100, func(i int) *usftp.Pending[*usftp.File] { return c.Async().Create(fmt.Sprintf("/d/%d", i)) }) {
				ok(t, result.Err)
				ok(t, result.Value.Close())
			}
			files := must[[]*usftp.File](t)(c.ReadDir("/d"))
			seen := make(map[string]bool)
			for _, f := range files {
				seen[f.Name()] = true
			}
			if len(files) != 3000 || len(seen) != 3000 {
				t.Errorf("%d entries, %d different ones", len(files), len(seen))
			}
			data := noise(3 << 20)
			ok(t, c.WriteFile("/f", data, 0o600))
			if hashes, err := c.CheckFile("/f", usftp.CheckFile{Algorithms: []string{"md5"},
				BlockSize: 1 << 20}); err != nil ||
				!bytes.Equal(hashes.Hashes[2], md5Of(data[2<<20:])) {
				t.Errorf("%+v, %v", hashes, err)
			}
			if n, err := c.CopyFile("/f", "/g"); n != 3<<20 || err != nil {
				t.Error(n, err)
			}
			if got := must[[]byte](t)(c.ReadFile("/g")); !bytes.Equal(got, data) {
				t.Error("the copy differs")
			}
			ok(t, c.Close())
			<-served
		})
	}
}

// TestHugeListing: a directory in one packet of 7 MB, as some servers send it.
func TestHugeListing(t *testing.T) {
	var reply wire.Names
	for i := range 50_000 {
		name := fmt.Sprintf("a file with quite a long name, number %d", i)
		reply.Names = append(reply.Names, wire.Name{Filename: name,
			LongName: strings.Repeat("-", 60) + name,
			Attrs:    wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o100644}})
	}
	sent := false
	r := newRig(t, sftptest.Script{Intercept: func(request sftptest.Request) []sftptest.Action {
		if request.Type != wire.TypeReaddir || sent {
			return nil
		}
		sent = true
		return []sftptest.Action{sftptest.ReplyBytes(string(reply.Append(nil, request.ID)))}
	}}, 0)
	if n := len(reply.Append(nil, 0)); n < 7<<20 {
		t.Fatalf("the packet has %d bytes", n)
	}
	files, err := r.ReadDir("/")
	if len(files) != 50_000 || err != nil {
		t.Errorf("%d entries, %v", len(files), err)
	}
}
