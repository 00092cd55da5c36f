package transfer_test

import (
	"context"
	"log"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/transfer"
)

// From what a person types to a file that is copied over as many connections as help.
func ExampleConnect() {
	ctx := context.Background()
	target, err := dial.ParseHost("me@example.com")
	if err != nil {
		log.Fatal(err)
	}
	login, err := transfer.Connect(ctx, target, transfer.ConnectConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer login.Close()
	if _, err := login.Host().Client.Stat("backup"); err != nil { // a client as any other
		log.Fatal(err)
	}
	if _, err := transfer.UploadFile(ctx, login.Host(), "disk.img", "backup/disk.img",
		transfer.Options{Retries: 5}); err != nil {
		log.Fatal(err)
	}
}

// From a connection of package dial to a client.
func ExampleOpenClient() {
	ctx := context.Background()
	d, err := dial.New(ctx, dial.Target{Host: "example.com"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	conn, err := d.Dial(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client, err := transfer.OpenClient(ctx, conn)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	log.Println(client.Getwd())
}
