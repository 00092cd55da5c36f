package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
)

// exampleHost connects to a server in this process.
func exampleHost(name string) (host pool.Host, disconnect func()) {
	near, far := net.Pipe()
	go server.Serve(context.Background(), far, memfs.New(1<<20), nil)
	client, err := usftp.NewClientPipe(near, near)
	if err != nil {
		log.Fatal(err)
	}
	return pool.Host{Client: client, Name: name}, func() { client.Close() }
}

func putText(client *usftp.Client, name, text string) {
	f, err := client.Create(name)
	if err != nil {
		log.Fatal(err)
	}
	if _, err = f.Write([]byte(text)); err != nil {
		log.Fatal(err)
	}
	f.Close()
}

// exampleDir makes a directory with two files.
func exampleDir() (dir string) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	os.Mkdir(filepath.Join(dir, "data"), 0o755)
	os.WriteFile(filepath.Join(dir, "data", "one"), []byte("1\n"), 0o644)
	os.WriteFile(filepath.Join(dir, "data", "two"), []byte("2\n"), 0o644)
	return dir
}

// Copy a file to a host, verify it there, and get its hash.
func ExampleCopy() {
	host, disconnect := exampleHost("host")
	defer disconnect()
	dir := exampleDir()
	defer os.RemoveAll(dir)
	result, err := transfer.Copy(context.Background(), transfer.Remote(host, "/file"),
		transfer.Local(filepath.Join(dir, "data", "one")),
		transfer.Options{Hash: checksum.BLAKE3, Verify: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Bytes, "bytes in", result.Target)
	fmt.Println(result.Hash)
	fmt.Println("verified by", result.Verified)
	// Output:
	// 2 bytes in /file
	// blake3:50cc1102b1c612e6962547aacdcef9a400d4416ef8dd9388e885991853c400c9
	// verified by hash
}

// Make a directory on a host equal to a local one. A second run finds nothing to do.
func ExampleSync() {
	host, disconnect := exampleHost("host")
	defer disconnect()
	dir := exampleDir()
	defer os.RemoveAll(dir)
	site := transfer.Local(filepath.Join(dir, "data"))
	for range 2 {
		summary, err := transfer.Sync(context.Background(), transfer.Remote(host, "/site"), site,
			transfer.SyncOptions{Delete: true})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(summary.Files, "files copied")
	}
	// Output:
	// 2 files copied
	// 0 files copied
}

// Copy a stream to a file on a host, and the file on the host to a stream.
func ExampleReader() {
	ctx := context.Background()
	host, disconnect := exampleHost("host")
	defer disconnect()
	text := strings.NewReader("hello\n")
	if _, err := transfer.Copy(ctx, transfer.Remote(host, "/greeting"), transfer.Reader(text),
		transfer.Options{}); err != nil {
		log.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := transfer.Copy(ctx, transfer.Writer(&out), transfer.Remote(host, "/greeting"),
		transfer.Options{}); err != nil {
		log.Fatal(err)
	}
	fmt.Print(out.String())
	// Output:
	// hello
}

// Copy a file on this machine.
func ExampleLocal() {
	dir := exampleDir()
	defer os.RemoveAll(dir)
	result, err := transfer.Copy(context.Background(),
		transfer.Local(filepath.Join(dir, "copy")),
		transfer.Local(filepath.Join(dir, "data", "two")), transfer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(filepath.Base(result.Target), result.Bytes)
	// Output:
	// copy 2
}

// Copy a tree from one host to another. Nothing of it is stored on this machine.
func ExampleCopyTree() {
	ctx := context.Background()
	from, disconnect := exampleHost("old")
	defer disconnect()
	to, disconnect := exampleHost("new")
	defer disconnect()
	from.Client.MkdirAll("/srv/www")
	putText(from.Client, "/srv/www/index.html", "hello")

	summary, err := transfer.CopyTree(ctx, transfer.Remote(to, "/www"),
		transfer.Remote(from, "/srv/www"), transfer.TreeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary.Files, summary.Bytes)
	_, err = transfer.Copy(ctx, transfer.Remote(to, "/www/none"),
		transfer.Remote(from, "/srv/none"), transfer.Options{})
	fmt.Println(err)
	// Output:
	// 1 5
	// cannot copy old:/srv/none to new:/www/none: on old: no such file
}

// Follow a copy by its events. They come one at a time, and the copy waits for each.
func ExampleOptions_events() {
	host, disconnect := exampleHost("host")
	defer disconnect()
	dir := exampleDir()
	defer os.RemoveAll(dir)
	_, err := transfer.Copy(context.Background(), transfer.Remote(host, "/file"),
		transfer.Local(filepath.Join(dir, "data", "one")),
		transfer.Options{Events: func(e transfer.Event) {
			switch e.Kind {
			case transfer.Progress: // five times a second
				fmt.Printf("%d of %d bytes after %v\n", e.Bytes, e.Size, e.Elapsed)
			case transfer.Retried, transfer.Note, transfer.Warning:
				fmt.Println(e.Message)
			case transfer.Started, transfer.Done:
				fmt.Println(e.Kind, e.Bytes, "of", e.Size)
			case transfer.Failed:
				fmt.Println(e.Err)
			}
		}})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// started 0 of 2
	// done 2 of 2
}

// Interrupt a copy, and continue what it has left.
func ExampleOptions_resume() {
	host, disconnect := exampleHost("host")
	defer disconnect()
	dir := exampleDir()
	defer os.RemoveAll(dir)
	source := filepath.Join(dir, "large")
	os.WriteFile(source, make([]byte, 900_000), 0o644)
	journal := filepath.Join(dir, "journal")

	ctx, interrupt := context.WithCancel(context.Background())
	_, err := transfer.Copy(ctx, transfer.Remote(host, "/large"), transfer.Local(source),
		transfer.Options{Journal: journal, RateLimit: 500_000, Events: func(e transfer.Event) {
			if e.Kind == transfer.Progress && e.Bytes > 100_000 {
				interrupt()
			}
		}})
	var failed *transfer.Error
	fmt.Println(errors.Is(err, context.Canceled), errors.As(err, &failed) && failed.Resumable)

	result, err := transfer.Copy(context.Background(), transfer.Remote(host, "/large"),
		transfer.Local(source), transfer.Options{Journal: journal, Resume: true})
	fmt.Println(result.Bytes, result.Resumed > 0, err)
	// Output:
	// true true
	// 900000 true <nil>
}

// Distinguish failures: the error names the file, and wraps the cause.
func ExampleError() {
	host, disconnect := exampleHost("host")
	defer disconnect()
	_, err := transfer.Copy(context.Background(), transfer.Local(os.TempDir()),
		transfer.Remote(host, "/none"), transfer.Options{})
	var failed *transfer.Error
	if errors.As(err, &failed) && errors.Is(err, fs.ErrNotExist) {
		fmt.Println(failed.SourceHost, failed.Source, "is not there")
	}
	// Output:
	// host /none is not there
}

// Copy one file to several hosts at the same time, reading it once.
func ExampleShared() {
	dir := exampleDir()
	defer os.RemoveAll(dir)
	shared := transfer.NewShared(0)
	defer shared.Close()
	var copying sync.WaitGroup
	for _, name := range []string{"one", "two", "three"} {
		host, disconnect := exampleHost(name)
		defer disconnect()
		copying.Go(func() {
			_, err := transfer.Copy(context.Background(), transfer.Remote(host, "/file"),
				shared.Local(filepath.Join(dir, "data", "two")), transfer.Options{})
			if err != nil {
				log.Print(err)
			}
		})
	}
	copying.Wait()
	fmt.Println(shared.BytesRead(), "bytes read")
	// Output:
	// 2 bytes read
}

// Copy a file from one host to several others. It is read once.
func ExampleShared_Host() {
	from, disconnect := exampleHost("origin")
	defer disconnect()
	putText(from.Client, "/image", "hello\n")
	shared := transfer.NewShared(0)
	defer shared.Close()
	origin := shared.Host(from)
	var copying sync.WaitGroup
	for _, name := range []string{"one", "two", "three"} {
		host, disconnect := exampleHost(name)
		defer disconnect()
		copying.Go(func() {
			_, err := transfer.Copy(context.Background(), transfer.Remote(host, "/image"),
				origin.Remote("/image"), transfer.Options{})
			if err != nil {
				log.Print(err)
			}
		})
	}
	copying.Wait()
	fmt.Println(shared.BytesRead(), "bytes read")
	// Output:
	// 6 bytes read
}

// Copy a stream to several hosts. It is read once, and each host gets all of it.
func ExampleShared_Reader() {
	shared := transfer.NewShared(0)
	defer shared.Close()
	names := []string{"one", "two"}
	branches := shared.Reader(strings.NewReader("hello\n"), len(names), 0)
	var copying sync.WaitGroup
	for i, name := range names {
		host, disconnect := exampleHost(name)
		defer disconnect()
		copying.Go(func() {
			defer branches[i].Leave()
			_, err := transfer.Copy(context.Background(), transfer.Remote(host, "/greeting"),
				branches[i].Endpoint, transfer.Options{})
			if err != nil {
				log.Print(err)
			}
		})
	}
	copying.Wait()
	fmt.Println(shared.BytesRead(), "bytes read")
	// Output:
	// 6 bytes read
}

// Verify a tree on its way to a host, and make a list of the hashes of what was copied. Then copy
// the tree back and compare it with that list.
func ExampleOptions_list() {
	ctx := context.Background()
	host, disconnect := exampleHost("host")
	defer disconnect()
	dir := exampleDir()
	defer os.RemoveAll(dir)
	sums := filepath.Join(dir, "SHA256SUMS")
	w, err := checksum.Create(sums)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Discard()
	_, err = transfer.CopyTree(ctx, transfer.Remote(host, "/data"),
		transfer.Local(filepath.Join(dir, "data")),
		transfer.TreeOptions{Options: transfer.Options{
			Hash:   checksum.SHA256,
			Verify: true,
			Events: func(e transfer.Event) {
				if !e.Hash.IsZero() {
					w.Add(e.Name, e.Hash)
				}
			},
		}})
	if err == nil {
		err = w.Commit()
	}
	if err != nil {
		log.Fatal(err)
	}
	text, _ := os.ReadFile(sums)
	fmt.Print(string(text))

	list, err := checksum.Open(sums, checksum.SHA256)
	if err != nil {
		log.Fatal(err)
	}
	defer list.Close()
	host.Client.Remove("/data/two")
	summary, err := transfer.CopyTree(ctx, transfer.Local(filepath.Join(dir, "back")),
		transfer.Remote(host, "/data"),
		transfer.TreeOptions{Options: transfer.Options{List: list}})
	fmt.Println(summary.Files, err)
	for name, err := range list.Missing() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("missing:", name)
	}
	// Output:
	// 4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865  one
	// 53c234e5e8472b6ac51c1ae1cab3fe06fad053beb8ebfd8977b010655bfdd3c3  two
	// 1 <nil>
	// missing: two
}

// Compare the files on a host with a list as sha256sum writes it. Nothing is copied: this host
// hashes its files itself.
func ExampleCheck() {
	host, disconnect := exampleHost("host")
	defer disconnect()
	for name, text := range map[string]string{"/one": "1\n", "/two": "2 \n", "/new": ""} {
		putText(host.Client, name, text)
	}
	sums := filepath.Join(os.TempDir(), "usftp-example-sums")
	os.WriteFile(sums, []byte(`4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865  one
53c234e5e8472b6ac51c1ae1cab3fe06fad053beb8ebfd8977b010655bfdd3c3  two
1121cfccd5913f0a63fec40a6ffd44ea64f9dc135c66634ba001d10bcf4302a2  three
`), 0o644)
	defer os.Remove(sums)
	list, err := checksum.Open(sums, checksum.SHA256)
	if err != nil {
		log.Fatal(err)
	}
	defer list.Close()

	var lines []string
	var o transfer.CheckOptions
	o.Events = func(e transfer.Event) {
		switch {
		case e.Kind == transfer.Done:
			lines = append(lines, e.Name+" matches, by "+string(e.Verified))
		case e.Kind == transfer.Skipped:
			lines = append(lines, e.Name+" is not listed")
		case e.Kind == transfer.Failed && errors.Is(e.Err, fs.ErrNotExist):
			lines = append(lines, e.Name+" is missing")
		case e.Kind == transfer.Failed:
			lines = append(lines, e.Name+" differs")
		}
	}
	summary, err := transfer.Check(context.Background(), transfer.Remote(host, "/"), list, o)
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	fmt.Println(summary.Files, "of", list.Len(), "match:", errors.Is(err, checksum.ErrMismatch))
	// Output:
	// new is not listed
	// one matches, by hash
	// three is missing
	// two differs
	// 1 of 3 match: true
}

// Filters have rsync's syntax; the first rule that matches decides. What they exclude is neither
// copied nor deleted.
func ExampleAppendFilter() {
	host, disconnect := exampleHost("host")
	defer disconnect()
	dir := exampleDir()
	defer os.RemoveAll(dir)
	var rules []transfer.FilterRule
	rules = transfer.AppendFilter(rules, "+ /one", false)
	rules = transfer.AppendFilter(rules, "*", false)
	summary, err := transfer.Sync(context.Background(), transfer.Remote(host, "/site"),
		transfer.Local(filepath.Join(dir, "data")), transfer.SyncOptions{
			TreeOptions: transfer.TreeOptions{Filter: rules}})
	fmt.Println(summary.Files, err)
	// Output: 1 <nil>
}

// A program that is told what changes, by inotify for example, need not compare the whole tree.
func ExampleSyncWithin() {
	host, disconnect := exampleHost("host")
	defer disconnect()
	dir := exampleDir()
	defer os.RemoveAll(dir)
	sync := func(within *transfer.SyncWithin) {
		_, err := transfer.Sync(context.Background(), transfer.Remote(host, "/site"),
			transfer.Local(dir), transfer.SyncOptions{Within: within})
		if err != nil {
			log.Fatal(err)
		}
	}
	sync(nil)
	os.Rename(filepath.Join(dir, "data"), filepath.Join(dir, "archive"))
	os.WriteFile(filepath.Join(dir, "new"), []byte("new"), 0o644)
	sync(&transfer.SyncWithin{
		Dirs:    map[string]bool{".": true},
		Renames: []transfer.SyncRename{{From: "data", To: "archive"}},
	})
	fmt.Println(host.Client.Glob("/site/*"))
	// Output: [/site/archive /site/new] <nil>
}
