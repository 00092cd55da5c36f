package usftp_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// Ten thousand names over a link of 50 ms: one after the other they would take more than eight
// minutes. (The link and the time are simulated.)
func ExampleBatch() {
	synctest.Test(&testing.T{}, func(*testing.T) {
		server := sftptest.NewScripted(sftptest.Script{})
		defer server.Close()
		var names []string
		for i := range 10_000 {
			names = append(names, fmt.Sprintf("/data/%d", i))
			if i%2_500 != 0 {
				server.Files.WriteFile(names[i], []byte("x"))
			}
		}
		stream := server.Dial(sftptest.LinkConfig{ToServer: 25 * time.Millisecond,
			ToClient: 25 * time.Millisecond})
		client, err := usftp.NewClientPipe(stream, stream)
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()

		began := time.Now()
		var size int64
		var missing []string
		for result := range usftp.Batch(slices.Values(names), 0, client.Async().Stat) {
			switch {
			case result.Err == nil:
				size += result.Value.Size()
			case errors.Is(result.Err, fs.ErrNotExist):
				missing = append(missing, result.Item)
			default:
				log.Fatal(result.Err)
			}
		}
		slices.Sort(missing)
		fmt.Println(size, "bytes; missing:", missing)
		fmt.Println("in less than six round trips:", time.Since(began) < 6*50*time.Millisecond)
	})
	// Output:
	// 9996 bytes; missing: [/data/0 /data/2500 /data/5000 /data/7500]
	// in less than six round trips: true
}

func ExamplePending() {
	client, done := connect(map[string]string{"a": "12", "b": "1234"})
	defer done()
	// Both requests are under way at once.
	a, b := client.Async().Stat("a"), client.Async().Stat("b")
	infoA, errA := a.Wait()
	infoB, errB := b.Wait()
	fmt.Println(infoA.Size(), errA)
	fmt.Println(infoB.Size(), errB)

	select {
	case <-a.Done():
		fmt.Println("done")
	case <-time.After(time.Minute):
		fmt.Println("too slow")
	}
	// Output:
	// 2 <nil>
	// 4 <nil>
	// done
}

func ExamplePending_Then() {
	client, done := connect(map[string]string{"a": "12"})
	defer done()
	called := make(chan struct{})
	client.Async().Stat("a").Then(func(info fs.FileInfo, err error) {
		fmt.Println(info.Size(), err)
		close(called)
	})
	<-called
	// Output: 2 <nil>
}

func ExamplePending_Forget() {
	failed := make(chan error, 1)
	client, done := connect(nil, usftp.WithErrorFunc(func(err error) { failed <- err }))
	client.Async().Remove("nothing").Forget()
	fmt.Println(<-failed)
	done() // the end of the connection is reported too
	fmt.Println(errors.Is(<-failed, usftp.ErrClosed))
	// Output:
	// remove nothing: no such file
	// true
}

func ExampleAsyncFile_ReadAt() {
	client, done := connect(map[string]string{"f": "0123456789"})
	defer done()
	f, err := client.Open("f")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	head, tail := make([]byte, 2), make([]byte, 2)
	first, last := f.Async().ReadAt(head, 0), f.Async().ReadAt(tail, 8)
	if _, err := first.Wait(); err != nil {
		log.Fatal(err)
	}
	if _, err := last.Wait(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(head), string(tail))
	// Output: 01 89
}

func ExampleClient_CopyFile() {
	client, done := connect(map[string]string{"a": "some data"})
	defer done()
	n, err := client.CopyFile("a", "b") // the data stays on the server
	fmt.Println(n, err)
	// Output: 9 <nil>
}

func ExampleClient_CheckFile() {
	server := sftptest.NewScripted(
		sftptest.Script{Extensions: []wire.ExtensionPair{{Name: wire.ExtCheckFileName}}})
	defer server.Close()
	server.Files.WriteFile("/f", []byte("abc"))
	stream := server.Dial(sftptest.LinkConfig{})
	client, err := usftp.NewClientPipe(stream, stream)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	hashes, err := client.CheckFile("/f", usftp.CheckFile{Algorithms: []string{"sha256", "md5"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hashes.Algorithm, hex.EncodeToString(hashes.Hashes[0])[:16])
	// Output: sha256 ba7816bf8f01cfea
}

func ExampleClient_StatVFS() {
	client, done := connect(nil)
	defer done()
	stat, err := client.StatVFS(".")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.0f%% free\n", 100*float64(stat.AvailableSpace())/float64(stat.TotalSpace()))
	// Output: 50% free
}

func ExampleClient_CreateTemp() {
	client, done := connect(nil)
	defer done()
	f, err := client.CreateTemp("", "upload-*.tmp")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.HasPrefix(f.Name(), "upload-"), strings.HasSuffix(f.Name(), ".tmp"))
	f.Write([]byte("complete"))
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.PosixRename("final")) // nobody ever sees an unfinished file
	// Output:
	// true true
	// <nil>
}

func ExampleClient_Symlink() {
	client, done := connect(map[string]string{"releases/2": ""})
	defer done()
	fmt.Println(client.Symlink("releases/2", "current"))
	fmt.Println(client.ReadLink("current"))
	// Output:
	// <nil>
	// releases/2 <nil>
}

func ExampleFile_SetStash() {
	client, done := connect(map[string]string{"d/a": "", "d/b": ""})
	defer done()
	files, err := client.ReadDir("d")
	if err != nil {
		log.Fatal(err)
	}
	for i, f := range files {
		f.SetStash(i)
	}
	fmt.Println(files[1].Stash())
	// Output: 1
}

func ExampleClient_Extended() {
	client, done := connect(nil)
	defer done()
	reply, err := client.Extended(wire.ExtLimits, nil)
	if err != nil {
		log.Fatal(err)
	}
	var limits wire.LimitsReply
	fmt.Println(limits.Parse(reply), limits.MaxRead)
	_, err = client.Extended("unheard-of@example.com", nil)
	fmt.Println(errors.Is(err, errors.ErrUnsupported))
	// Output:
	// <nil> 261120
	// true
}

func ExampleClient_Raw() {
	client, done := connect(map[string]string{"f": "0123456789"})
	defer done()
	raw := client.Raw()
	handle, err := raw.Open("f", wire.OpenRead, wire.Attrs{}).Wait()
	if err != nil {
		log.Fatal(err)
	}
	defer raw.Close(handle)
	p := make([]byte, 100)
	n, err := raw.Read(handle, 4, p).Wait() // one READ, with the server's plain answer
	fmt.Println(string(p[:n]), err)
	fmt.Println(client.Stats().Requests > 0)
	// Output:
	// 456789 <nil>
	// true
}

func ExampleClient_HomeDirectory() {
	client, done := connect(nil)
	defer done()
	fmt.Println(client.HomeDirectory("")) // of the user who is logged in
	_, err := client.HomeDirectory("nobody")
	fmt.Println(err)
	// Output:
	// /home/me <nil>
	// home-directory nobody: failure
}

// Names for a listing: one request has all IDs.
func ExampleClient_UsersGroups() {
	client, done := connect(map[string]string{"d/a": "", "d/b": ""})
	defer done()
	files, err := client.ReadDir("d")
	if err != nil {
		log.Fatal(err)
	}
	var uids, gids []uint32
	for _, f := range files {
		uids, gids = append(uids, f.UID()), append(gids, f.GID())
	}
	users, groups, err := client.UsersGroups(uids, gids)
	if err != nil { // errors.ErrUnsupported: show the IDs
		log.Fatal(err)
	}
	for i, f := range files {
		fmt.Println(f.BaseName(), users[i], groups[i])
	}
	// Output:
	// a user user
	// b user user
}

// Is it the server that is slow, or the link? On a stream without SSH the caller says how to ask.
func ExampleClient_Ping() {
	client, done := connect(nil, usftp.WithKeepalive(func(ctx context.Context) error {
		return nil // the peer has answered
	}))
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Println(client.Ping(ctx))

	other, done := connect(nil)
	defer done()
	fmt.Println(errors.Is(other.Ping(ctx), errors.ErrUnsupported))
	// Output:
	// <nil>
	// true
}

// A log that others append to: each Seek from the end asks how long the file is now.
func ExampleWithStatStrategy() {
	client, done := connect(map[string]string{"log": "first\n"},
		usftp.WithStatStrategy(usftp.StatAlways))
	defer done()
	f, err := client.OpenRead("log")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	fmt.Println(f.Seek(0, io.SeekEnd))
	if err := client.Truncate("log", 100); err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Seek(0, io.SeekEnd)) // StatLazy would use the size from OpenRead
	// Output:
	// 6 <nil>
	// 100 <nil>
}

// connect returns a client of an in-memory server with the given files, and a function that closes
// both. A program would call [usftp.NewClient], or use package dial.
func connect(files map[string]string, opts ...usftp.ClientOption) (*usftp.Client, func()) {
	server := sftptest.NewScripted(sftptest.Script{Home: "/home/me"})
	for name, data := range files {
		server.Files.WriteFile(name, []byte(data))
	}
	stream := server.Dial(sftptest.LinkConfig{})
	client, err := usftp.NewClientPipe(stream, stream, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { client.Close(); server.Close() }
}

func Example() {
	client, done := connect(map[string]string{"greeting": "hello, world\n"})
	defer done()

	// Download.
	f, err := client.Open("greeting")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(os.Stdout, f); err != nil {
		log.Fatal(err)
	}

	// Upload. Close reports whether the server stored it.
	g, err := client.Create("answer")
	if err != nil {
		log.Fatal(err)
	}
	n, err := io.Copy(g, strings.NewReader("hello to you"))
	if err := errors.Join(err, g.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "bytes sent")
	// Output:
	// hello, world
	// 12 bytes sent
}

func ExampleClient_ReadFile() {
	client, done := connect(nil)
	defer done()
	if err := client.WriteFile("notes", []byte("buy milk"), 0o600); err != nil {
		log.Fatal(err)
	}
	data, err := client.ReadFile("notes")
	fmt.Println(string(data), err)
	// Output: buy milk <nil>
}

func ExampleClient_Stat() {
	client, done := connect(map[string]string{"notes": "buy milk"})
	defer done()
	info, err := client.Stat("notes")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Name(), info.Size(), info.Mode())

	_, err = client.Stat("nothing")
	fmt.Println(errors.Is(err, fs.ErrNotExist), err)
	var status *usftp.StatusError
	fmt.Println(errors.As(err, &status), status.Code)
	// Output:
	// notes 8 -rw-r--r--
	// true stat nothing: no such file
	// true 2
}

func ExampleClient_ReadDir() {
	client, done := connect(map[string]string{"logs/today": "some lines\n",
		"logs/old/monday": "more\n"})
	defer done()
	files, err := client.ReadDir("logs")
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		fmt.Println(f.Name(), f.BaseName(), f.Size()) // no request: the listing has the attributes
		if err := f.OpenRead(); err != nil {
			log.Fatal(err)
		}
		f.WriteTo(os.Stdout)
		f.Close()
	}
	// Output:
	// logs/today today 11
	// some lines
}

func ExampleClient_Entries() {
	client, done := connect(map[string]string{"d/a": "", "d/b": "", "d/c": ""})
	defer done()
	// A directory of any size, an entry at a time; leaving the loop ends the listing.
	for f, err := range client.Entries("d") {
		if err != nil {
			log.Fatal(err)
		}
		if f.BaseName() == "b" {
			fmt.Println("found", f.Name())
			break
		}
	}
	// Output: found d/b
}

func ExampleClient_ReadDirLimit() {
	client, done := connect(map[string]string{"d/1.log": "", "d/2.txt": "", "d/3.log": "",
		"d/4.log": ""})
	defer done()
	logs := 0
	files, err := client.ReadDirLimit("d", 10*time.Second, func(f *usftp.File) (accept, stop bool) {
		accept = strings.HasSuffix(f.BaseName(), ".log")
		if accept {
			logs++
		}
		return accept, logs == 2
	})
	fmt.Println(len(files), err)
	// Output: 2 <nil>
}

func ExampleClient_WalkDir() {
	client, done := connect(map[string]string{"p/a": "", "p/cache/x": "", "p/src/main": "1234"})
	defer done()
	err := client.WalkDir("p", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == "cache" {
			return fs.SkipDir
		}
		fmt.Println(path)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// p
	// p/a
	// p/src
	// p/src/main
}

func ExampleClient_Walk() {
	client, done := connect(map[string]string{"p/a": "12", "p/src/main": "1234"})
	defer done()
	var total int64
	for f, err := range client.Walk("p") {
		if err != nil {
			log.Fatal(err)
		}
		if f.IsRegular() {
			total += f.Size()
		}
	}
	fmt.Println(total, "bytes")
	// Output: 6 bytes
}

func ExampleClient_Glob() {
	client, done := connect(map[string]string{"a.txt": "", "b.txt": "", "c.log": ""})
	defer done()
	fmt.Println(client.Glob("*.txt"))
	// Output: [a.txt b.txt] <nil>
}

func ExampleClient_RemoveAll() {
	client, done := connect(map[string]string{"tmp/a/b/c": "", "tmp/d": ""})
	defer done()
	fmt.Println(client.RemoveAll("tmp"))
	_, err := client.Stat("tmp")
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// <nil>
	// true
}

func ExampleClient_MkdirAll() {
	client, done := connect(nil)
	defer done()
	fmt.Println(client.MkdirAll("a/b/c"))
	fmt.Println(client.MkdirAll("a/b/c"))
	err := client.Mkdir("a")
	fmt.Println(errors.Is(err, fs.ErrExist))
	// Output:
	// <nil>
	// <nil>
	// true
}

func ExampleClient_PosixRename() {
	client, done := connect(map[string]string{"config": "old", "config.new": "new"})
	defer done()
	err := client.Rename("config.new", "config")
	fmt.Println(errors.Is(err, fs.ErrExist)) // Rename does not replace
	fmt.Println(client.PosixRename("config.new", "config"))
	data, _ := client.ReadFile("config")
	fmt.Println(string(data))
	// Output:
	// true
	// <nil>
	// new
}

func ExampleClient_WithContext() {
	client, done := connect(nil)
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cancel() // or the minute passes
	_, err := client.WithContext(ctx).ReadDir("/")
	fmt.Println(errors.Is(err, context.Canceled))
	_, err = client.ReadDir("/") // the client itself stays usable
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleClient_FS() {
	client, done := connect(map[string]string{"www/index.html": "<p>hello",
		"www/data": "0123456789"})
	defer done()
	www := client.DirFS("www")
	names, _ := fs.Glob(www, "*")
	fmt.Println(names)

	// A web server of remote files; ranges work.
	web := httptest.NewServer(http.FileServerFS(www))
	defer web.Close()
	request, _ := http.NewRequest("GET", web.URL+"/data", nil)
	request.Header.Set("Range", "bytes=2-4")
	response, err := web.Client().Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, string(body))
	// Output:
	// [data index.html]
	// 206 234
}

func ExampleFile_Writer() {
	client, done := connect(nil)
	defer done()
	f, err := client.Create("log")
	if err != nil {
		log.Fatal(err)
	}
	w := f.Writer() // no Write waits for the server
	for i := range 3 {
		fmt.Fprintln(w, "line", i)
	}
	// Errors of earlier Writes arrive here at the latest: Close waits until the server has
	// everything.
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	data, _ := client.ReadFile("log")
	fmt.Print(string(data))
	// Output:
	// line 0
	// line 1
	// line 2
}

func ExampleFile_ReadFrom() {
	client, done := connect(nil)
	defer done()
	f, err := client.OpenFile("upload", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		log.Fatal(err)
	}
	n, err := f.ReadFrom(strings.NewReader("any reader, of any size"))
	if err != nil {
		log.Fatalf("%v; the first %d bytes are safe", err, n)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
	// Output: 23
}

func ExampleFile_ReadAt() {
	client, done := connect(map[string]string{"f": "0123456789"})
	defer done()
	f, err := client.Open("f")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, 4)
	n, err := f.ReadAt(p, 8)
	fmt.Println(string(p[:n]), err)
	// Output: 89 EOF
}

// Stream part of a file, such as what an HTTP Range request asks for.
func ExampleFile_ReadRange() {
	client, done := connect(map[string]string{"f": "0123456789"})
	defer done()
	f, err := client.Open("f")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	part := f.ReadRange(2, 5)
	defer part.Close()
	_, err = io.Copy(os.Stdout, part)
	fmt.Println("", err)
	// Output: 23456 <nil>
}

// A file that was open when its connection was lost continues over the next one.
func ExampleFile_SetClient() {
	server := sftptest.NewScripted(sftptest.Script{})
	defer server.Close()
	server.Files.WriteFile("/log", []byte("first second"))
	dial := func() *usftp.Client {
		stream := server.Dial(sftptest.LinkConfig{})
		client, err := usftp.NewClientPipe(stream, stream)
		if err != nil {
			log.Fatal(err)
		}
		return client
	}
	client := dial()
	f, err := client.Open("/log")
	if err != nil {
		log.Fatal(err)
	}
	p := make([]byte, 6)
	f.Read(p)
	client.Close() // or lost
	f.Close()

	client = dial()
	defer client.Close()
	if err := f.SetClient(client); err != nil {
		log.Fatal(err)
	}
	if err := f.OpenRead(); err != nil {
		log.Fatal(err)
	}
	n, err := f.Read(p) // from the offset that the other connection had reached
	fmt.Println(string(p[:n]), err)
	// Output: second <nil>
}

// Two clients share 8 MiB in flight, so transfers on both together take no more memory than that.
func ExampleWithBudget() {
	budget := usftp.NewBudget(8 << 20)
	for _, name := range []string{"a", "b"} {
		client, done := connect(map[string]string{name: strings.Repeat(name, 5)},
			usftp.WithBudget(budget))
		defer done()
		data, err := client.ReadFile(name)
		fmt.Println(string(data), err)
	}
	fmt.Println(budget.InFlight())
	// Output:
	// aaaaa <nil>
	// bbbbb <nil>
	// 0
}

func ExampleQuotePattern() {
	client, done := connect(map[string]string{"[x]/a.txt": "", "x/b.txt": ""})
	defer done()
	dir := "[x]" // a name, perhaps from the server, not a pattern
	fmt.Println(client.Glob(usftp.QuotePattern(dir) + "/*.txt"))
	// Output: [[x]/a.txt] <nil>
}

func ExampleFile_CopyRange() {
	client, done := connect(map[string]string{"a": "0123456789"})
	defer done()
	from, err := client.Open("a")
	if err != nil {
		log.Fatal(err)
	}
	defer from.Close()
	to, err := client.Create("b")
	if err != nil {
		log.Fatal(err)
	}
	defer to.Close()
	fmt.Println(from.CopyRange(2, 5, to, 0)) // the data stays on the server
	data, err := client.ReadFile("b")
	fmt.Println(string(data), err)
	// Output:
	// 5 <nil>
	// 23456 <nil>
}

func ExampleClient_RemoveAllIn() {
	client, done := connect(map[string]string{"cache/a": "", "cache/d/b": ""})
	defer done()
	fmt.Println(client.RemoveAllIn("cache"))
	files, err := client.ReadDir("cache")
	fmt.Println(len(files), err)
	// Output:
	// <nil>
	// 0 <nil>
}

// OpenRead returns the size along with the open file, and Progress how much of it has been copied.
func ExampleClient_OpenRead() {
	client, done := connect(map[string]string{"a": "0123456789"})
	defer done()
	f, err := client.OpenRead("a")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteTo(io.Discard); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d bytes\n", f.Progress(), f.Size())
	// Output: 10 of 10 bytes
}

// Two files are compared without reading either: the server cuts them into chunks at places that
// their contents decide, so what was inserted at the beginning changes only the first chunks.
func ExampleFile_Chunks() {
	near, far := net.Pipe()
	go server.Serve(context.Background(), far, memfs.New(64<<20), nil)
	client, err := usftp.NewClientPipe(near, near)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	old := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(old)
	chunks := func(name string, contents []byte) map[[wire.ChunkSumSize]byte]int {
		if err := client.WriteFile(name, contents, 0o644); err != nil {
			log.Fatal(err)
		}
		f, err := client.Open(name)
		if err != nil {
			log.Fatal(err)
		}
		defer f.Close()
		found := map[[wire.ChunkSumSize]byte]int{}
		for chunk, err := range f.Chunks(usftp.ListChunks{Algorithm: "sha256", Shortest: 4 << 10}) {
			if err != nil {
				log.Fatal(err)
			}
			found[chunk.Sum] = chunk.Length
		}
		return found
	}
	before := chunks("before", old)
	after := chunks("after", append([]byte("a new beginning"), old...))
	common := 0
	for sum, length := range after {
		if before[sum] == length {
			common += length
		}
	}
	fmt.Println("nearly everything is the same:", common > len(old)-64<<10)
	// Output: nearly everything is the same: true
}
