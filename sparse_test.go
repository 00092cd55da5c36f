package usftp_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/sftptest"
)

// sparseMemory is a source with holes, in memory: the spans with data, and the file's end.
type sparseMemory struct {
	*bytes.Reader
	bounds []int64 // where data begins and ends, in turn; the last data ends with the file
	read   int
}

func (s *sparseMemory) Extent(off int64) (to int64, hole bool) {
	hole = true
	for _, bound := range s.bounds {
		if off < bound {
			return bound, hole
		}
		hole = !hole
	}
	return off + 1, false
}

func (s *sparseMemory) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.Reader.ReadAt(p, off)
	s.read += n
	return n, err
}

// randomSparse makes a source and returns its contents.
func randomSparse(rng *rand.Rand) (*sparseMemory, []byte, int) {
	s, data, holds := &sparseMemory{}, []byte(nil), 0
	for range rng.IntN(12) {
		data = append(data, make([]byte, rng.IntN(1<<(1+rng.IntN(20))))...)
		s.bounds = append(s.bounds, int64(len(data)))
		n := 1 + rng.IntN(1<<(1+rng.IntN(19)))
		holds += n
		for range n {
			data = append(data, byte(rng.Uint32())|1)
		}
		s.bounds = append(s.bounds, int64(len(data)))
	}
	s.Reader = bytes.NewReader(data)
	return s, data, holds
}

// TestSparseSources: holes are neither read nor sent, whatever the server does, and count as
// progress.
func TestSparseSources(t *testing.T) {
	whole := 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			source, data, holds := randomSparse(rng)
			script := sftptest.RandomScript(seed)
			server := sftptest.NewScripted(script)
			defer server.Close()
			stream := server.Dial(sftptest.RandomLink(seed))
			client, err := usftp.NewClientPipe(stream, stream)
			if err != nil {
				return
			}
			defer client.Close()
			f, err := client.Create("/f")
			if err != nil {
				return
			}
			defer f.Close()
			n, err := private.NewStripes(f).ReadFromAt(source)
			stored, _ := server.Files.ReadFile("/f")
			if err != nil { // such as a server that accepts no WRITE beyond the end
				if n > int64(len(data)) {
					t.Errorf("seed %d: %d of %d bytes are safe", seed, n, len(data))
				}
				if safe := data[:min(n, int64(len(stored)))]; !bytes.Equal(stored[:len(safe)],
					safe) || len(bytes.Trim(data[len(safe):n], "\x00")) > 0 {
					t.Errorf("seed %d: what is said to be safe differs", seed)
				}
				return
			}
			whole++
			if n != int64(len(data)) || !bytes.Equal(stored, data) || f.Progress() != n {
				t.Errorf("seed %d: %d of %d bytes, progress %d, or what is stored differs", seed, n,
					len(data), f.Progress())
			}
			if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != n {
				t.Errorf("seed %d: the offset is %d, %v", seed, at, err)
			}
			if source.read != holds {
				t.Errorf("seed %d: %d bytes were read of %d", seed, source.read, holds)
			}
		})
	}
	if whole < 20 {
		t.Errorf("only %d were whole", whole)
	}
}
