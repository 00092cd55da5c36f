package pool_test

import (
	"context"
	"log"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// Log in and copy a file over as many connections as help.
func ExampleConnect() {
	ctx := context.Background()
	target, err := dial.ParseHost("me@example.com")
	if err != nil {
		log.Fatal(err)
	}
	login, err := pool.Connect(ctx, target, pool.ConnectConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer login.Close()
	if _, err := login.Host().Client.Stat("backup"); err != nil { // a client like any other
		log.Fatal(err)
	}
	if _, err := transfer.Copy(ctx, transfer.Remote(login.Host(), "backup/disk.img"),
		transfer.Local("disk.img"), transfer.Options{Retry: pool.Retry{Retries: 5}}); err != nil {
		log.Fatal(err)
	}
}
