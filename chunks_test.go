package usftp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"net"
	"slices"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/cdc"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// ours is package server over memory, on a stream that counts.
func ours(t *testing.T) (*usftp.Client, *sftptest.Counter) {
	t.Helper()
	client, end := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), end, memfs.New(64<<20), nil) }()
	count := sftptest.NewCounter(client)
	c := must[*usftp.Client](t)(usftp.NewClientPipe(count, count,
		usftp.WithServerVersion("SSH-2.0-usftp")))
	t.Cleanup(func() {
		c.Close()
		<-served
	})
	return c, count
}

// cut returns what a server should list.
func cut(t *testing.T, data []byte, offset int64, shortest int) (all []usftp.Chunk) {
	t.Helper()
	cutter, err := cdc.NewCutter(bytes.NewReader(data[offset:]), shortest, sha256.New(),
		make([]byte, 1<<20))
	ok(t, err)
	for {
		c, err := cutter.Next()
		if err == io.EOF {
			return all
		}
		ok(t, err)
		all = append(all, usftp.Chunk{Offset: offset, Length: int(c.Length), Sum: c.Sum})
		offset += int64(c.Length)
	}
}

// TestChunks: many concurrent requests list the same chunks as one that cuts the whole file,
// whether or not the contents have boundaries.
func TestChunks(t *testing.T) {
	c, _ := ours(t)
	without := noise(20 << 20)
	for i := range 10 << 20 { // no boundary comes into step with another here
		without[5<<20+i] = byte(i % 7)
	}
	for name, data := range map[string][]byte{"random": noise(20<<20 + 1), "empty": {},
		"small": noise(100), "without boundaries": without,
		// the second request finds none of the first one's boundaries before the end of the file
		"without boundaries at the end": without[5<<20:][:592_000]} {
		t.Run(name, func(t *testing.T) {
			ok(t, c.WriteFile("/f", data, 0o600))
			f := must[*usftp.File](t)(c.Open("/f"))
			defer f.Close()
			for _, what := range []usftp.ListChunks{{Shortest: 4 << 10}, {Shortest: 64 << 10},
				{Shortest: 4 << 10, Length: max(1, int64(len(data)))},
				{Shortest: 4 << 10, Length: 1 << 62},
				{Shortest: 8 << 10, Offset: min(int64(len(data)), 1_000_001)}} {
				what.Algorithm = "sha256"
				var got []usftp.Chunk
				for chunk, err := range f.Chunks(what) {
					ok(t, err)
					got = append(got, chunk)
				}
				if want := cut(t, data, what.Offset, what.Shortest); !slices.Equal(got, want) {
					t.Errorf("%+v: %d chunks, want %d", what, len(got), len(want))
				}
			}
		})
	}
}

func TestPartOfTheChunks(t *testing.T) {
	c, count := ours(t)
	data := noise(30 << 20)
	ok(t, c.WriteFile("/f", data, 0o600))
	f := must[*usftp.File](t)(c.Open("/f"))
	defer f.Close()
	want := cut(t, data, 0, 4<<10)
	for _, length := range []int64{1, 4 << 10, 5_000_000, 8 << 20} {
		var got []usftp.Chunk
		for chunk, err := range f.Chunks(usftp.ListChunks{Algorithm: "sha256", Shortest: 4 << 10,
			Length: length}) {
			ok(t, err)
			got = append(got, chunk)
		}
		last := got[len(got)-1]
		if !slices.Equal(got, want[:len(got)]) || last.Offset >= length ||
			last.Offset+int64(last.Length) < length {
			t.Errorf("%d bytes: %d chunks, the last from %d on", length, len(got), last.Offset)
		}
	}
	// A caller that has enough requests no more than was requested ahead. What had not left when it
	// stopped is not sent at all.
	count.Reset()
	for _, err := range f.Chunks(usftp.ListChunks{Algorithm: "sha256", Shortest: 4 << 10}) {
		ok(t, err)
		break
	}
	if sent := count.Counts().PacketsSent[wire.TypeExtended]; sent < 1 || sent > 5 {
		t.Errorf("%d requests for one chunk", sent)
	}
}

func TestChunksThatCannotBeListed(t *testing.T) {
	first := func(f *usftp.File, what usftp.ListChunks) (err error) {
		n := 0
		for _, err = range f.Chunks(what) {
			n++
		}
		if n != 1 {
			t.Errorf("%+v: %d were yielded, the last %v", what, n, err)
		}
		return err
	}
	c, _ := ours(t)
	ok(t, c.WriteFile("/f", noise(100), 0o600))
	f := must[*usftp.File](t)(c.Open("/f"))
	good := usftp.ListChunks{Algorithm: "sha256", Shortest: 4 << 10}
	for _, what := range []usftp.ListChunks{{Algorithm: "sha256"},
		{Algorithm: "sha256", Shortest: 1000}, {Algorithm: "sha256", Shortest: 4 << 10, Offset: -1},
		{Algorithm: "sha256", Shortest: 4 << 10, Length: -1}} {
		if err := first(f, what); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%+v: %v", what, err)
		}
	}
	if err := first(f, usftp.ListChunks{Algorithm: "rot13", Shortest: 4 << 10}); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Errorf("an unknown hash: %v", err)
	}
	ok(t, f.Close())
	if err := first(f, good); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/f", noise(100))
	if err := first(must[*usftp.File](t)(r.Open("/f")), good); !errors.Is(err,
		errors.ErrUnsupported) || r.HasChunks() || !c.HasChunks() {
		t.Errorf("a server without the extension: %v", err)
	}
}

// TestListsOfChunksThatLie: a server can neither make the client keep more than it asked for nor
// make it ask forever.
func TestListsOfChunksThatLie(t *testing.T) {
	chunks := func(n int, length uint32) (list []byte) {
		for range n {
			list = wire.AppendChunk(list, wire.Chunk{Length: length})
		}
		return list
	}
	for name, reply := range map[string]wire.ChunksReply{
		"nothing, and not the end": {Algorithm: "sha256"},
		"one at a time":            {Algorithm: "sha256", List: chunks(1, 8<<10)},
		"no length":                {Algorithm: "sha256", List: chunks(100, 0)},
		"too short":                {Algorithm: "sha256", List: chunks(100, 8<<10-1)},
		"too short, at the end":    {Algorithm: "sha256", End: true, List: chunks(100, 8<<10-1)},
		"too long":                 {Algorithm: "sha256", List: chunks(100, 24<<10+1)},
		"4 GiB":                    {Algorithm: "sha256", List: chunks(100, 1<<32-1)},
		"another hash":             {Algorithm: "md5", List: chunks(100, 8<<10)},
		"more than requested":      {Algorithm: "sha256", List: chunks(145, 8<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			client, end := net.Pipe()
			go answerChunks(end, reply)
			c := must[*usftp.Client](t)(usftp.NewClientPipe(client, client))
			defer c.Close()
			f := must[*usftp.File](t)(c.Open("/f"))
			var last error
			yielded := 0
			for _, err := range f.Chunks(usftp.ListChunks{Algorithm: "sha256", Shortest: 8 << 10}) {
				last = err
				if yielded++; yielded > 1000 {
					break
				}
			}
			var protocol *usftp.ProtocolError
			if !errors.As(last, &protocol) {
				t.Errorf("the error is %v", last)
			}
		})
	}
}

// answerChunks is a server that gives the same answer to each request for chunks.
func answerChunks(stream io.ReadWriteCloser, reply wire.ChunksReply) {
	defer stream.Close()
	header := make([]byte, wire.LengthSize)
	for {
		if _, err := io.ReadFull(stream, header); err != nil {
			return
		}
		packet := make([]byte, int(header[2])<<8|int(header[3]))
		if _, err := io.ReadFull(stream, packet); err != nil {
			return
		}
		kind, id, _, err := wire.ParseHeader(packet)
		answer := wire.Status{Code: wire.OpUnsupported}.Append(nil, id)
		switch {
		case err != nil:
			return
		case kind == wire.TypeInit:
			answer = wire.InitReply{Version: wire.Version, Extensions: []wire.ExtensionPair{
				{Name: wire.ExtChunks, Data: "1"}}}.Append(nil)
		case kind == wire.TypeOpen:
			answer = wire.Handle{Handle: []byte("h")}.Append(nil, id)
		case kind == wire.TypeExtended:
			answer = reply.Append(nil, id)
		}
		if _, err := stream.Write(answer); err != nil {
			return
		}
	}
}
