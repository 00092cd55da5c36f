package transfer_test

import (
	"context"
	"fmt"
	"log"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// ExampleCopyDir copies a tree from one server to another; nothing of it is stored on this machine.
func ExampleCopyDir() {
	old, clientOfOld := exampleHost()
	_, clientOfNew := exampleHost()
	old.Files.WriteFile("/srv/www/index.html", []byte("hello"))

	ctx := context.Background()
	from := transfer.Host{Client: clientOfOld, Name: "old"}
	to := transfer.Host{Client: clientOfNew, Name: "new"}
	summary, err := transfer.CopyDir(ctx, from, "/srv/www", to, "/www", transfer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary.Files, summary.Bytes)
	_, err = transfer.CopyFile(ctx, from, "/srv/none", to, "/www/none", transfer.Options{})
	fmt.Println(err)
	// Output:
	// 1 5
	// cannot copy old:/srv/none to new:/www/none: on old: no such file
}

// exampleHost is a server and a client on it.
func exampleHost() (*sftptest.Scripted, *usftp.Client) {
	server := sftptest.NewScripted(sftptest.Script{})
	end := server.Dial(sftptest.LinkConfig{})
	client, err := usftp.NewClientPipe(end, end)
	if err != nil {
		log.Fatal(err)
	}
	return server, client
}
