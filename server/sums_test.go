package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// TestSums: a file that was written or read from its beginning to its end has its hash in the event
// of its end, and one that was not has none.
func TestSums(t *testing.T) {
	const text = "some text"
	write := func(c *raw, flags uint32, pieces ...any) {
		h := c.open("/f", flags)
		for i := 0; i < len(pieces); i += 2 {
			c.ok(wire.Write{Handle: h, Offset: uint64(pieces[i].(int)),
				Data: []byte(pieces[i+1].(string))})
		}
		c.close(h)
	}
	read := func(c *raw, ranges ...int) {
		h := c.open("/f", wire.OpenRead)
		for i := 0; i < len(ranges); i += 2 {
			c.do(wire.Read{Handle: h, Offset: uint64(ranges[i]), Length: uint32(ranges[i+1])})
		}
		c.close(h)
	}
	resized := func(c *raw, sizes ...uint64) {
		h := c.open("/f", create)
		c.ok(wire.Write{Handle: h, Data: []byte(text)})
		for _, size := range sizes {
			c.ok(wire.Fsetstat{Handle: h,
				Attrs: wire.Attrs{Flags: wire.AttrSize, Size: size}})
		}
		c.close(h)
	}
	for name, test := range map[string]struct {
		run  func(c *raw)
		want string // the contents, or "none"
	}{
		"written":            {func(c *raw) { write(c, create, 0, "some", 4, " text") }, text},
		"written empty":      {func(c *raw) { write(c, create) }, ""},
		"written over less":  {func(c *raw) { write(c, create&^wire.OpenTruncate, 0, text) }, text},
		"written over more":  {func(c *raw) { write(c, create&^wire.OpenTruncate, 0, "s") }, "none"},
		"resumed":            {func(c *raw) { write(c, wire.OpenWrite, 4, " text") }, "none"},
		"written twice":      {func(c *raw) { write(c, create, 0, "some", 0, text) }, "none"},
		"overlapping":        {func(c *raw) { write(c, create, 0, "some", 3, "e text") }, "none"},
		"out of order":       {func(c *raw) { write(c, create, 4, " text", 0, "some") }, "none"},
		"with a hole":        {func(c *raw) { write(c, create, 0, "some", 5, "text") }, "none"},
		"appended":           {func(c *raw) { write(c, create|wire.OpenAppend, 0, text) }, "none"},
		"the same size":      {func(c *raw) { resized(c, uint64(len(text))) }, text},
		"made shorter":       {func(c *raw) { resized(c, 4) }, "none"},
		"cut and stretched":  {func(c *raw) { resized(c, 4, uint64(len(text))) }, "none"},
		"stretched":          {func(c *raw) { resized(c, 100) }, "none"},
		"stretched and back": {func(c *raw) { resized(c, 100, uint64(len(text))) }, text},
		"read":               {func(c *raw) { read(c, 0, 3, 3, 100) }, "before"},
		"read to its end":    {func(c *raw) { read(c, 0, 6, 6, 100) }, "before"},
		"read, and asked far beyond": {func(c *raw) {
			read(c, 0, 6, 1<<20, 100)
		}, "before"},
		"read in part":      {func(c *raw) { read(c, 0, 3) }, "none"},
		"read from within":  {func(c *raw) { read(c, 3, 3) }, "none"},
		"read twice":        {func(c *raw) { read(c, 0, 6, 0, 6) }, "none"},
		"read out of order": {func(c *raw) { read(c, 3, 3, 0, 3) }, "none"},
		"not read":          {func(c *raw) { read(c) }, "none"},
		"copied": {func(c *raw) {
			from, to := c.open("/f", wire.OpenRead), c.open("/g", create)
			c.ok(wire.CopyData{FromHandle: from, ToHandle: to})
			c.close(to)
		}, "none"},
		"written and read": {func(c *raw) {
			h := c.open("/f", create|wire.OpenRead)
			c.ok(wire.Write{Handle: h, Data: []byte(text)})
			c.do(wire.Read{Handle: h, Length: 4})
			c.close(h)
		}, text},
		"read to its end, then stretched": {func(c *raw) {
			h := c.open("/f", create|wire.OpenRead)
			c.ok(wire.Write{Handle: h, Data: []byte(text)})
			want(c.t, c.status(wire.Read{Handle: h, Offset: uint64(len(text)), Length: 4}),
				wire.EOF)
			c.ok(wire.Fsetstat{Handle: h, Attrs: wire.Attrs{Flags: wire.AttrSize, Size: 100}})
			c.close(h)
		}, "none"},
		"read with the right to write": {func(c *raw) {
			h := c.open("/f", wire.OpenWrite|wire.OpenRead)
			c.do(wire.Read{Handle: h, Length: 100})
			c.close(h)
		}, "none"},
	} {
		for kind, backend := range map[string]server.FS{"memory": memfs.New(0),
			"directory": serving(t, osfs.New)} {
			t.Run(name+", "+kind, func(t *testing.T) {
				book := &eventBook{}
				c := start(t, backend, &server.Options{Hashes: true, Events: book.note})
				c.put("/f", "before")
				test.run(c)
				c.over()
				var closed []server.Event
				for _, e := range book.events {
					if e.Kind == server.FileClosed {
						closed = append(closed, e)
					}
				}
				wanted := ""
				if test.want != "none" {
					wanted = sumOf([]byte(test.want))
				}
				if len(closed) < 2 || closed[0].SHA256 != sumOf([]byte("before")) ||
					closed[1].SHA256 != wanted {
					t.Errorf("%+v, want %s", closed, wanted)
				}
			})
		}
	}
	book := &eventBook{}
	c := start(t, memfs.New(0), &server.Options{Events: book.note})
	c.put("/f", text)
	c.over()
	if e := book.events[1]; e.Kind != server.FileClosed || e.SHA256 != "" {
		t.Errorf("nobody has asked for a hash: %+v", e)
	}
}

// TestSumsOfPipelines: a client that does not wait for replies has its files hashed in the order of
// its requests, whichever of them the backend is done with first. What waits for its turn is
// bounded as replies are.
func TestSumsOfPipelines(t *testing.T) {
	synctest.Test(t, testSumsOfPipelines)
}

func testSumsOfPipelines(t *testing.T) {
	backend, book := newGated(), &eventBook{}
	c := start(t, backend, &server.Options{Hashes: true, Events: book.note})
	pieces := [][]byte{append([]byte("slow"), make([]byte, 200<<10)...),
		bytes.Repeat([]byte("b"), 1000), bytes.Repeat([]byte("c"), 200<<10),
		append([]byte("slow"), 'd'), bytes.Repeat([]byte("e"), 3000)}
	release := backend.hold("write /f")
	h := c.open("/f", create)
	offset := 0
	for _, piece := range pieces {
		c.ask(wire.Write{Handle: h, Offset: uint64(offset), Data: piece})
		offset += len(piece)
	}
	synctest.Wait()
	want(t, backend.wrote.Load(), int64(len(pieces)))
	release()
	for range pieces {
		want(t, c.receive().status(t).Code, wire.OK)
	}
	c.close(h)

	release = backend.hold("read 0 /f")
	h = c.open("/f", wire.OpenRead)
	asked := 0
	for at := 0; at < offset; at += 100 << 10 {
		c.ask(wire.Read{Handle: h, Offset: uint64(at), Length: 100 << 10})
		asked++
	}
	synctest.Wait()
	want(t, backend.read.Load(), int64(asked))
	release()
	for range asked {
		c.receive().data(t)
	}
	c.close(h)
	c.over()
	for _, i := range []int{1, 3} {
		if e := book.events[i]; e.Kind != server.FileClosed ||
			e.SHA256 != sumOf(bytes.Join(pieces, nil)) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

// TestSumsAreNeverWrong: whatever a client does to a file through one handle, the hash is that of
// the file, if there is one.
func TestSumsAreNeverWrong(t *testing.T) {
	backend, book := memfs.New(0), &eventBook{}
	c := start(t, backend, &server.Options{Hashes: true, Events: book.note})
	hashed := 0
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := c.open("/f", wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate*uint32(random.IntN(2)))
		end := 0
		for range 1 + random.IntN(5) {
			if random.IntN(8) == 0 {
				c.ok(wire.Fsetstat{Handle: h, Attrs: wire.Attrs{Flags: wire.AttrSize,
					Size: uint64(random.IntN(end + 20))}})
				continue
			}
			at, data := end, []byte(fmt.Sprint(random.Uint64()))
			if random.IntN(8) == 0 {
				at = random.IntN(end + 20)
			}
			c.ok(wire.Write{Handle: h, Offset: uint64(at), Data: data})
			end = max(end, at+len(data))
		}
		c.close(h)
		last := book.last()
		if last.SHA256 == "" {
			continue
		}
		hashed++
		file, err := backend.Open(context.Background(), "/f", wire.OpenRead, wire.Attrs{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(io.NewSectionReader(file.(io.ReaderAt), 0, 1<<20))
		if file.Close(); err != nil || last.SHA256 != sumOf(data) {
			t.Fatalf("seed %d: %s is not the hash of %q (%v)", seed, last.SHA256, data, err)
		}
	}
	if hashed < 50 {
		t.Errorf("only %d hashes", hashed)
	}
}
