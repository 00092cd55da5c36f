package server_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// slowFS is a tree in memory that is slow at random.
type slowFS struct {
	*memfs.FS
	mu     sync.Mutex
	random *rand.Rand
}

// pause sometimes takes longer than the reader's patience.
func (m *slowFS) pause() {
	m.mu.Lock()
	n := m.random.IntN(10)
	m.mu.Unlock()
	if n >= 7 {
		time.Sleep(time.Duration(n) * time.Millisecond / 2) // on the fake clock
	}
}

func (m *slowFS) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	m.pause()
	return m.FS.Stat(ctx, name)
}

func (m *slowFS) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	m.pause()
	file, err := m.FS.Open(ctx, name, flags, attrs)
	if err != nil {
		return nil, err
	}
	return &moodyFile{file.(memFile), m}, nil
}

type moodyFile struct {
	memFile
	m *slowFS
}

func (f *moodyFile) ReadAt(p []byte, offset int64) (int, error) {
	f.m.pause()
	return f.memFile.ReadAt(p, offset)
}

func (f *moodyFile) WriteAt(p []byte, offset int64) (int, error) {
	f.m.pause()
	return f.memFile.WriteAt(p, offset)
}

// TestRandomlySlowBackend sends requests in bursts of any length to a backend that is slow now and
// then, so that readers are replaced at any moment. Every request must be answered, once, without
// further requests to push it along.
func TestRandomlySlowBackend(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testMoody(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func testMoody(t *testing.T, random *rand.Rand) {
	backend := &slowFS{FS: memfs.New(0), random: rand.New(rand.NewPCG(random.Uint64(), 1))}
	c := start(t, backend, nil)
	var handles [][]byte
	for i := range 3 {
		handles = append(handles, c.open(fmt.Sprintf("/f%d", i), create|wire.OpenRead))
	}
	for range 30 {
		var burst []byte
		asked := map[uint32]bool{}
		for range 1 + random.IntN(40) {
			c.nextID++
			asked[c.nextID] = true
			burst = moodyRequest(random, handles).Append(burst, c.nextID)
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for rest := burst; len(rest) > 0; {
				n := min(len(rest), 1+random.IntN(100_000))
				if _, err := c.conn.Write(rest[:n]); err != nil {
					t.Error(err)
					return
				}
				rest = rest[n:]
			}
		}()
		for len(asked) > 0 {
			p := c.receive()
			if !asked[p.id] {
				t.Fatalf("a reply %d to nothing", p.id)
			}
			delete(asked, p.id)
		}
		<-sent
	}
}

func moodyRequest(random *rand.Rand, handles [][]byte) message {
	h, offset := handles[random.IntN(len(handles))], uint64(random.IntN(400_000))
	switch random.IntN(7) {
	case 0:
		return stat(fmt.Sprintf("/f%d", random.IntN(5)))
	case 1:
		return wire.HandleRequest{Type: wire.TypeFstat, Handle: h}
	case 2:
		return wire.HandleRequest{Type: 99}
	case 3:
		return wire.Write{Handle: h, Offset: offset, Data: make([]byte, random.IntN(wire.MaxData))}
	case 4:
		return wire.Write{Handle: h, Offset: offset, Data: make([]byte, random.IntN(1000))}
	case 5:
		return wire.Read{Handle: h, Offset: offset, Length: uint32(random.IntN(100))}
	}
	return wire.Read{Handle: h, Offset: offset, Length: uint32(random.IntN(wire.MaxData))}
}
