package usftp_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// Ten thousand names over a link of 50 ms: one after the other they would take more than eight
// minutes. (The link is simulated, and so is the time.)
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
	done() // the function hears of the connection's end, too
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
	server := sftptest.NewScripted(sftptest.Script{Extensions: []wire.ExtensionPair{{Name: wire.ExtCheckFileName}}})
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
	fmt.Println(f.PosixRename("final")) // nobody ever sees half of it
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
	n, err := raw.Read(handle, 4, p).Wait() // one READ, and what the server answers
	fmt.Println(string(p[:n]), err)
	fmt.Println(client.Stats().Requests > 0)
	// Output:
	// 456789 <nil>
	// true
}
