package transfer_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
)

// connectToExample connects to a server in this process.
func connectToExample() (transfer.Host, func()) {
	near, far := net.Pipe()
	go server.Serve(context.Background(), far, memfs.New(1<<20), nil)
	client, err := usftp.NewClientPipe(near, near)
	if err != nil {
		log.Fatal(err)
	}
	return transfer.Host{Client: client, Name: "host"}, func() { client.Close() }
}

// A directory goes up, verified, and a list of its hashes is made of what has passed; what comes
// down is compared with that list.
func ExampleManifest() {
	host, disconnect := connectToExample()
	defer disconnect()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Mkdir(filepath.Join(dir, "data"), 0o755)
	os.WriteFile(filepath.Join(dir, "data", "one"), []byte("1\n"), 0o644)
	os.WriteFile(filepath.Join(dir, "data", "two"), []byte("2\n"), 0o644)

	sums := filepath.Join(dir, "SHA256SUMS")
	manifest, err := transfer.NewManifest(sums)
	if err != nil {
		log.Fatal(err)
	}
	defer manifest.Discard()
	_, err = transfer.UploadDir(context.Background(), host, filepath.Join(dir, "data"), "/data",
		transfer.Options{
			Hash:   transfer.SHA256,
			Verify: true,
			Events: func(e transfer.Event) {
				if !e.Hash.IsZero() {
					manifest.Add(e.Name, e.Hash)
				}
			},
		})
	if err == nil {
		err = manifest.Commit()
	}
	if err != nil {
		log.Fatal(err)
	}
	text, _ := os.ReadFile(sums)
	fmt.Print(string(text))

	list, err := transfer.OpenList(sums, transfer.SHA256)
	if err != nil {
		log.Fatal(err)
	}
	defer list.Close()
	host.Client.Remove("/data/two")
	summary, err := transfer.DownloadDir(context.Background(), host, "/data",
		filepath.Join(dir, "back"), transfer.Options{List: list})
	fmt.Println(summary.Files, err)
	for name := range list.Missing() {
		fmt.Println("missing:", name)
	}
	// Output:
	// 4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865  one
	// 53c234e5e8472b6ac51c1ae1cab3fe06fad053beb8ebfd8977b010655bfdd3c3  two
	// 1 <nil>
	// missing: two
}

// The hash of a file comes with its result.
func ExampleOptions_hash() {
	host, disconnect := connectToExample()
	defer disconnect()
	file := filepath.Join(os.TempDir(), "usftp-example")
	os.WriteFile(file, []byte("1\n"), 0o644)
	defer os.Remove(file)
	result, err := transfer.UploadFile(context.Background(), host, file, "/file",
		transfer.Options{Hash: transfer.BLAKE3, Verify: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Hash)
	fmt.Println("verified by", result.Verified)
	// Output:
	// blake3:50cc1102b1c612e6962547aacdcef9a400d4416ef8dd9388e885991853c400c9
	// verified by hash
}
