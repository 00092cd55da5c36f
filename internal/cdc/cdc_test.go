package cdc

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/usftp/usftp/wire"
)

func most(shortest int) int { return wire.LongestChunk * shortest }

func noise(seed int64, n int) []byte {
	p := make([]byte, n)
	rand.New(rand.NewSource(seed)).Read(p)
	return p
}

func cut(t testing.TB, r io.Reader, shortest, buffer int) (all []wire.Chunk) {
	t.Helper()
	c, err := NewCutter(r, shortest, sha256.New(), make([]byte, buffer))
	if err != nil {
		t.Fatal(err)
	}
	for {
		chunk, err := c.Next()
		if err == io.EOF {
			if !c.Ended() {
				t.Error("it has not ended at its end")
			}
			if _, err := c.Next(); err != io.EOF {
				t.Errorf("behind the end: %v", err)
			}
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, chunk)
	}
}

// TestBoundariesDoNotChange: two versions of usftp must cut alike. If this fails with a new version
// of the library, the extension needs a new name.
func TestBoundariesDoNotChange(t *testing.T) {
	var lengths []uint32
	for _, c := range cut(t, bytes.NewReader(noise(1, 100_000)), 8<<10, most(8<<10)) {
		lengths = append(lengths, c.Length)
	}
	if want := []uint32{12184, 9132, 9077, 9911, 14488, 8803, 9592, 17368,
		9445}; !slices.Equal(lengths, want) {
		t.Errorf("the chunks have %d bytes, want %d", lengths, want)
	}
}

func TestChunksAreTheContents(t *testing.T) {
	for shortest := wire.MinChunk; shortest <= wire.MaxChunk; shortest *= 2 {
		for _, size := range []int{0, 1, shortest - 1, shortest, shortest + 1,
			most(shortest), 100*shortest + 3} {
			data := noise(int64(size), size)
			if size > 2*shortest {
				clear(data[size/2:]) // nothing to find a boundary in
			}
			rest := data
			chunks := cut(t, bytes.NewReader(data), shortest, most(shortest))
			for i, c := range chunks {
				if int(c.Length) > most(shortest) || int(c.Length) > len(rest) || c.Length == 0 ||
					int(c.Length) < shortest && i < len(chunks)-1 {
					t.Fatalf("shortest %d: chunk %d of %d has %d bytes, of %d", shortest, i,
						len(chunks),
						c.Length, len(rest))
				}
				sum := sha256.Sum256(rest[:c.Length])
				if !bytes.Equal(c.Sum[:], sum[:wire.ChunkSumSize]) {
					t.Errorf("shortest %d: chunk %d has another hash", shortest, i)
				}
				rest = rest[c.Length:]
			}
			if len(rest) > 0 {
				t.Errorf("shortest %d: %d bytes of %d are in no chunk", shortest, len(rest), size)
			}
			halves := iotest.HalfReader(bytes.NewReader(data))
			if again := cut(t, halves, shortest, 1<<20); !slices.Equal(again, chunks) {
				t.Errorf("shortest %d: what comes in small pieces is cut otherwise", shortest)
			}
		}
	}
}

func TestLengthsOfChunks(t *testing.T) {
	for shortest := wire.MinChunk; shortest <= wire.MaxChunk; shortest *= 2 {
		n := len(cut(t, bytes.NewReader(noise(2, 200*shortest)), shortest, most(shortest)))
		if n < 130 || n > 190 {
			t.Errorf("shortest %d: %d chunks, want 160 or so", shortest, n)
		}
	}
}

// TestInsertionMovesBoundariesNearbyOnly: that is the purpose of the package.
func TestInsertionMovesBoundariesNearbyOnly(t *testing.T) {
	data := noise(3, 8<<20)
	old := make(map[wire.Chunk]bool)
	for _, c := range cut(t, bytes.NewReader(data), 8<<10, 1<<20) {
		old[c] = true
	}
	places := rand.New(rand.NewSource(5)) // where boundaries meet again is a matter of chance
	for range 5 {
		at := places.Intn(len(data))
		data = slices.Insert(data, at, noise(int64(at), 1000)...)
	}
	other := 0
	chunks := cut(t, bytes.NewReader(data), 8<<10, 1<<20)
	for _, c := range chunks {
		if !old[c] {
			other++
		}
	}
	if other == 0 || other > 25 {
		t.Errorf("%d of %d chunks are others after 5 insertions", other, len(chunks))
	}
}

func TestWhatCannotBeCut(t *testing.T) {
	for _, shortest := range []int{-1, 0, 1, wire.MinChunk / 2, wire.MinChunk + 1,
		wire.MaxChunk * 2} {
		if _, err := NewCutter(bytes.NewReader(nil), shortest, sha256.New(),
			make([]byte, 1<<20)); err == nil {
			t.Errorf("an shortest of %d is accepted", shortest)
		}
	}
	if _, err := NewCutter(bytes.NewReader(nil), wire.MinChunk, sha256.New(),
		make([]byte, 100)); err == nil {
		t.Error("a buffer that holds no chunk is accepted")
	}
	broken := errors.New("broken")
	c, err := NewCutter(io.MultiReader(bytes.NewReader(noise(4, 20_000)), iotest.ErrReader(broken)),
		wire.MinChunk, sha256.New(), make([]byte, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = c.Next()
	}
	if err != broken {
		t.Errorf("the error is %v, want the reader's", err)
	}
}

func BenchmarkCutter(b *testing.B) {
	data := noise(5, 64<<20)
	buffer := make([]byte, 1<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		c, _ := NewCutter(bytes.NewReader(data), 32<<10, sha256.New(), buffer)
		for {
			if _, err := c.Next(); err != nil {
				break
			}
		}
	}
}
