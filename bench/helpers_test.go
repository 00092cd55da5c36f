package bench

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/bench/library"
	"github.com/usftp/usftp/bench/pipes"
	"github.com/usftp/usftp/internal/testenv"
)

const transferSize = 10 << 20

// startServer starts sftp-server on pipes.
func startServer(tb testing.TB, pipeSize int) *pipes.Server {
	tb.Helper()
	server, err := pipes.Start(pipeSize)
	if errors.Is(err, pipes.ErrNoServer) {
		testenv.Unavailable(tb, err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return server
}

// connect joins a client to a server of its own, with its writes delayed.
func connect(tb testing.TB, lib library.Library, pipeSize int, delay time.Duration) library.Client {
	tb.Helper()
	server := startServer(tb, pipeSize)
	client, err := lib.OverPipe(server.R, delayed(server, delay))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	return client
}

// delayed returns the client's way to a server, delayed.
func delayed(server *pipes.Server, delay time.Duration) io.WriteCloser {
	if delay > 0 {
		return pipes.NewDelayed(server.W, delay)
	}
	return server.W
}

// memoryDir returns a directory on tmpfs where there is one, so that no disk is measured.
func memoryDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "usftp-bench-")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// randomFile makes a file of n bytes that no compression could shorten.
func randomFile(tb testing.TB, n int) (path string, content []byte) {
	tb.Helper()
	content = make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(content)
	path = filepath.Join(memoryDir(tb), "source")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path, content
}

// discard drops the bytes of WriteTo, and unlike io.Discard has no ReadFrom.
type discard struct{ n int64 }

func (d *discard) Write(p []byte) (int, error) {
	d.n += int64(len(p))
	return len(p), nil
}

// pieces is a source that hands out at most piece bytes a Read. It tells its length, because
// pkg/sftp pipelines uploads only from sources that do.
type pieces struct {
	content []byte
	piece   int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.content) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.piece)], p.content)
	p.content = p.content[n:]
	return n, nil
}

func (p *pieces) Len() int { return len(p.content) }

// download copies path to a sink with WriteTo.
func download(client library.Client, path string, want int64) error {
	f, err := client.Open(path)
	if err != nil {
		return err
	}
	var sink discard
	n, err := f.WriteTo(&sink)
	if err == nil && (n != want || sink.n != want) {
		err = fmt.Errorf("WriteTo said %d bytes and brought %d of %d", n, sink.n, want)
	}
	return errors.Join(err, f.Close())
}

// upload creates path with ReadFrom.
func upload(client library.Client, path string, source *pieces) error {
	want := int64(source.Len())
	f, err := client.Create(path)
	if err != nil {
		return err
	}
	n, err := f.ReadFrom(source)
	if err == nil && n != want {
		err = fmt.Errorf("ReadFrom took %d bytes of %d", n, want)
	}
	return errors.Join(err, f.Close())
}

// checkFile fails the benchmark if the uploaded file has the wrong contents.
func checkFile(tb testing.TB, path string, want []byte) {
	tb.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	if string(got) != string(want) {
		tb.Fatalf("%s holds other bytes than were uploaded", path)
	}
}
