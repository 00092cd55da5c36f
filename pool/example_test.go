package pool_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"path"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// memoryConnection is a connection to a server in this process. A real one opens an SSH channel
// for each session.
type memoryConnection struct{ files *memfs.FS }

func (c memoryConnection) Open(ctx context.Context) (*usftp.Client, error) {
	near, far := net.Pipe()
	go server.Serve(context.WithoutCancel(ctx), far, c.files, nil)
	return usftp.NewClientPipe(near, near)
}

func (memoryConnection) Close() error { return nil }

// Connections made without package dial can be pooled, too. A copy opens further ones if they help.
func ExampleNew() {
	ctx := context.Background()
	first := memoryConnection{memfs.New(1 << 20)}
	client, err := first.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	further := pool.New(pool.Config{First: first,
		Connect: func(context.Context) (pool.Connection, error) {
			return memoryConnection{first.files}, nil
		}})
	defer further.Close()
	host := pool.Host{Client: client, Name: "memory", Pool: further}
	_, err = transfer.Copy(ctx, transfer.Remote(host, "/file"), transfer.Local("example_test.go"),
		transfer.Options{})
	fmt.Println(err)
	// Output:
	// <nil>
}

// Work of many goroutines spreads over the pool's sessions, as they are opened.
func ExamplePool_Acquire() {
	ctx := context.Background()
	first := memoryConnection{memfs.New(1 << 20)}
	client, err := first.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	further := pool.New(pool.Config{First: first})
	defer further.Close()
	further.Want(1, 0) // as many sessions on the first connection as allowed

	session, release := further.Acquire()
	defer release()
	if session == nil { // the first session is the least busy one
		session = client
	}
	fmt.Println(session.Mkdir("/dir"))
	// Output:
	// <nil>
}

// Requests are sent again over a new connection if theirs is lost.
func ExampleNewConn() {
	ctx := context.Background()
	files := memoryConnection{memfs.New(1 << 20)}
	connect := func(ctx context.Context) (pool.Host, error) {
		client, err := files.Open(ctx)
		return pool.Host{Client: client, Name: "memory"}, err
	}
	host, err := connect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	host.Redial = connect
	conn := pool.NewConn(ctx, host, pool.Retry{Retries: 3})
	host.Client.Close() // the connection is lost

	tell := func(a pool.Attempt) {
		if a.Err != nil { // otherwise it is connected again
			fmt.Println("once more")
		}
	}
	err = conn.Do(tell,
		func(client *usftp.Client, again bool) error { return client.MkdirAll("/some/dir") })
	fmt.Println(err)
	// Output:
	// once more
	// <nil>
}

// A Host made without Connect: its copies share what the first of them finds out, here that the
// server takes no temporary names.
func ExampleQuirks() {
	server := sftptest.NewScripted(sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeOpen && len(path.Base(r.Path)) > 1 {
				return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
			}
			return nil
		}})
	defer server.Close()
	stream := server.Dial(sftptest.LinkConfig{})
	client, err := usftp.NewClientPipe(stream, stream)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	host := pool.Host{Client: client, Name: "server", Quirks: new(pool.Quirks)}
	for _, name := range []string{"/a", "/b"} {
		_, err := transfer.Copy(context.Background(), transfer.Remote(host, name),
			transfer.Reader(strings.NewReader("contents")),
			transfer.Options{Events: func(e transfer.Event) {
				if e.Kind == transfer.Warning {
					fmt.Println(e.Message)
				}
			}})
		fmt.Println(name, err)
	}
	// Output:
	// no temporary file can be created beside the target: it is written in place
	// /a <nil>
	// /b <nil>
}
