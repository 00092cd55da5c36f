package hashpipe

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/soak"
)

func noise(n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(p)
	return p
}

// kept is a file that is not closed.
type kept struct{ io.ReaderAt }

func (kept) Close() error { return nil }

// readerAtFor is a local file that holds what has been fed so far.
type readerAtFor struct {
	mu   sync.Mutex
	data []byte
}

func (f *readerAtFor) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *readerAtFor) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return copy(f.data[off:], p), nil
}

// In whatever order the pieces come, however large they are and however much exists already, the
// hash is that of the file.
func TestHashPipeInAnyOrder(t *testing.T) {
	pool := new(sync.Pool)
	all := noise(6 << 20) // more than the pipe has buffers for
	for seed := range uint64(soak.Pick(20, 200)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			hashInAnyOrder(t, rand.New(rand.NewPCG(seed, 1)), all, pool)
		})
	}
}

func hashInAnyOrder(t *testing.T, random *rand.Rand, all []byte, pool *sync.Pool) {
	data := all[:random.IntN(len(all))]
	present := 0
	if len(data) > 0 && random.IntN(3) == 0 {
		present = random.IntN(len(data) + 1)
	}
	type piece struct{ off, end int }
	var pieces []piece
	for off := present; off < len(data); {
		end := min(len(data), off+1+random.IntN(600<<10))
		pieces = append(pieces, piece{off, end})
		off = end
	}
	// In order, slightly out of order, or shuffled; some twice, as when a server makes the
	// transfer repeat them.
	switch reach := random.IntN(3) * random.IntN(8); {
	case reach > 12:
		random.Shuffle(len(pieces), func(i, j int) {
			pieces[i], pieces[j] = pieces[j],
				pieces[i]
		})
	case reach > 0:
		for i := range pieces {
			j := min(len(pieces)-1, i+random.IntN(reach))
			pieces[i], pieces[j] = pieces[j], pieces[i]
		}
	}
	if len(pieces) > 2 && random.IntN(2) == 0 {
		pieces = append(pieces, pieces[random.IntN(len(pieces))])
	}
	file := &readerAtFor{data: make([]byte, len(data))}
	copy(file.data, data[:present])
	pieceSize := int64(1 + random.IntN(1<<20))
	p := New(Digests{checksum.NewDigest(checksum.SHA256, 0),
		checksum.NewDigest(checksum.BLAKE3, pieceSize)}, int64(present),
		func() (readAtCloser, error) { return kept{file}, nil }, pool)
	arrived := make([]bool, len(pieces))
	mark := func() int64 { // how far the file is complete
		end := present
		for moved := true; moved; {
			moved = false
			for i, piece := range pieces {
				if arrived[i] && piece.off <= end && piece.end > end {
					end, moved = piece.end, true
				}
			}
		}
		return int64(end)
	}
	for i, piece := range pieces {
		file.WriteAt(data[piece.off:piece.end], int64(piece.off))
		safe := mark()
		arrived[i] = true
		given := bytes.Clone(data[piece.off:piece.end])
		p.Feed(given, int64(piece.off), safe)
		clear(given) // the pipe must not retain it
	}
	if err := p.Finish(int64(len(data))); err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(data)
	if got := p.digests[0].Sums; len(got) != 1 || !bytes.Equal(got[0], want[:]) {
		t.Fatal("the hash differs")
	}
	byPiece := checksum.NewDigest(checksum.BLAKE3, pieceSize)
	byPiece.Write(data)
	byPiece.Finish()
	if !slices.EqualFunc(byPiece.Sums, p.digests[1].Sums, bytes.Equal) {
		t.Fatalf("the pieces' hashes differ: %d and %d", len(byPiece.Sums),
			len(p.digests[1].Sums))
	}
	p.Stop() // may be called again
}

// slowHash hashes when told to.
type slowHash struct {
	hash.Hash
	proceed chan struct{}
}

func (s slowHash) Write(p []byte) (int, error) {
	<-s.proceed
	return s.Hash.Write(p)
}

// A feeder that is faster than the hash waits for it, so the buffers are bounded.
func TestHashPipeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := make(chan struct{})
		slow := checksum.NewDigest(checksum.SHA256, 0)
		slow.State = slowHash{slow.State, tell}
		p := New(Digests{slow}, 0, nil, nil)
		data := noise(100 * bufferSize)
		fed := make(chan struct{})
		go func() {
			p.Feed(data, 0, 0)
			close(fed)
		}()
		synctest.Wait()
		p.mu.Lock()
		waiting, taken := p.lent, p.next
		p.mu.Unlock()
		if waiting != buffers || taken != buffers*bufferSize {
			t.Errorf("%d buffers hold %d bytes", waiting, taken)
		}
		select {
		case <-fed:
			t.Error("nobody waits for the hash")
		default:
		}
		close(tell)
		<-fed
		if err := p.Finish(int64(len(data))); err != nil {
			t.Error(err)
		}
		if want := sha256.Sum256(data); !bytes.Equal(slow.Sums[0], want[:]) {
			t.Error("the hash differs")
		}
	})
}

// A failure to read the file is reported at the end, and nobody waits forever.
func TestHashPipeFails(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		open func() (readAtCloser, error)
		feed func(p *Pipe)
		size int64
		want error
	}{
		"a stream with a gap": {nil, func(p *Pipe) { p.Feed([]byte("x"), 1, 1) }, 2,
			errNotInOrder},
		"a stream that is short": {nil, func(p *Pipe) { p.Feed([]byte("x"), 0, 0) }, 2,
			errNotInOrder},
		"more than there was": {nil, func(p *Pipe) { p.Feed([]byte("xyz"), 0, 0) }, 2,
			errNotInOrder},
		"a file that does not open": {func() (readAtCloser, error) { return nil, broken },
			func(p *Pipe) { p.Feed([]byte("x"), 1, 0) }, 2, broken},
		"a file that is short": {
			func() (readAtCloser, error) { return kept{strings.NewReader("x")}, nil },
			func(p *Pipe) { p.Feed([]byte("x"), 1, 0) }, 2, io.ErrUnexpectedEOF},
	} {
		p := New(Digests{checksum.NewDigest(checksum.SHA256, 0)}, 0, test.open, nil)
		test.feed(p)
		if err := p.Finish(test.size); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		p.Feed(noise(bufferSize*(buffers+2)), 0, 0) // feeding does not wait
		p.Stop()
	}
	p := New(Digests{checksum.NewDigest(checksum.SHA256, 0)}, 0, nil, nil)
	p.Feed([]byte("x"), 0, 0)
	p.Stop() // the hash is no longer wanted
	(*Pipe)(nil).Stop()
}

// Without a hash the readers and writers are the originals.
func TestNilPipeCostsNothing(t *testing.T) {
	var p *Pipe
	file := &readerAtFor{}
	var w bytes.Buffer
	if p.Writer(&w, 0) != io.Writer(&w) || p.ReaderAt(file) != io.ReaderAt(file) ||
		p.WriterAt(file, nil) != io.WriterAt(file) {
		t.Error("something stands between")
	}
}

// TestPipeWhileTheFileIsOpened: the file may be on a host that does not answer.
func TestPipeWhileTheFileIsOpened(t *testing.T) {
	opening, answer := make(chan struct{}), make(chan struct{})
	p := New(nil, 2*step, func() (readAtCloser, error) {
		close(opening)
		<-answer
		return nil, io.ErrUnexpectedEOF
	}, nil)
	<-opening
	p.Feed(noise(10), 2*step, 2*step+10)
	if n := p.Progress(); n != 0 {
		t.Errorf("%d bytes are said to have been hashed", n)
	}
	close(answer)
	if err := p.Finish(2*step + 10); err != io.ErrUnexpectedEOF {
		t.Errorf("it ended with %v", err)
	}
}
