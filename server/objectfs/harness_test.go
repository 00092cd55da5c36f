package objectfs_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"slices"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// Parts in tests are this long, and files at most two of them until they are uploaded in parts.
const partSize = 64 << 10

const (
	create   = wire.OpenWrite | wire.OpenCreate
	truncate = create | wire.OpenTruncate
)

// bench is a bucket that is served.
type bench struct {
	*testing.T
	bucket *membucket.Bucket
	state  *objectfs.MemoryState
	fs     *objectfs.FS
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, bucket: &membucket.Bucket{MinPart: partSize}, state: &objectfs.MemoryState{}}
	b.fs = b.serve(b.bucket)
	return b
}

// serve serves a bucket with the bench's state.
func (b *bench) serve(bucket objectfs.Bucket) *objectfs.FS {
	return objectfs.NewSmall(bucket, objectfs.Options{State: b.state}, partSize, 16*partSize)
}

// file is an open file as a session sees it.
type file interface {
	server.File
	server.FileStater
	server.FileSetstater
}

type writer interface {
	file
	io.WriterAt
	server.FileAbandoner
}

func (b *bench) open(name string, flags uint32) (server.File, error) {
	return b.fs.Open(context.Background(), name, flags, wire.Attrs{})
}

func (b *bench) write(name string, flags uint32) writer {
	b.Helper()
	f, err := b.open(name, flags)
	if err != nil {
		b.Fatalf("opening %s: %v", name, err)
	}
	return f.(writer)
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) is(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("got %v, want %v", err, want)
	}
}

// at writes text at an offset, in pieces as packets are.
func (b *bench) at(f io.WriterAt, offset int64, text string) {
	b.Helper()
	const packet = 10000
	for piece := range slices.Chunk([]byte(text), packet) {
		n, err := f.WriteAt(piece, offset)
		if err != nil || n != len(piece) {
			b.Fatalf("writing %d bytes at %d: %d, %v", len(piece), offset, n, err)
		}
		offset += int64(n)
	}
}

// put stores a file.
func (b *bench) put(name, text string) {
	b.Helper()
	f := b.write(name, truncate)
	b.at(f, 0, text)
	b.must(f.Close())
}

// get reads a file.
func (b *bench) get(name string) (string, error) {
	f, err := b.open(name, wire.OpenRead)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f.(io.ReaderAt), 0, 1<<40))
	return string(text), err
}

func (b *bench) holds(name, want string) {
	b.Helper()
	got, err := b.get(name)
	if err != nil || got != want {
		b.Errorf("%s holds %d bytes, %v; want %d", name, len(got), err, len(want))
	}
}

func (b *bench) missing(name string) {
	b.Helper()
	if _, err := b.fs.Stat(context.Background(), name); !errors.Is(err, fs.ErrNotExist) {
		b.Errorf("%s: %v, want that it does not exist", name, err)
	}
}

func (b *bench) size(name string) int64 {
	b.Helper()
	info, err := b.fs.Stat(context.Background(), name)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return info.Size()
}

func (b *bench) list(name string) (names []string) {
	b.Helper()
	for info, err := range b.fs.List(context.Background(), name) {
		if err != nil {
			b.Fatalf("listing %s: %v", name, err)
		}
		text := info.Name()
		if info.IsDir() {
			text += "/"
		}
		names = append(names, text)
	}
	slices.Sort(names)
	return names
}

// dial returns a stream to a session that serves f.
func dial(t testing.TB, f server.FS) io.ReadWriteCloser {
	ours, theirs := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- server.Serve(context.Background(), theirs, f, nil) }()
	t.Cleanup(func() {
		ours.Close()
		<-done
	})
	return ours
}
