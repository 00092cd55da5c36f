package usftp

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"slices"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// Chunk is a piece of a file. Its boundaries follow from the file's contents there, so contents
// that two files share are mostly cut into the same chunks in both, at whatever offsets.
type Chunk struct {
	Offset int64
	Length int
	// Sum is the beginning of the hash of the contents. Chunks with equal sums are most likely
	// equal; to be sure, compare a hash of the whole file afterwards.
	Sum [wire.ChunkSumSize]byte
}

// ListChunks says how to cut a file into chunks.
type ListChunks struct {
	// Algorithm is the hash: "sha256", or "blake3@usftp" if [Client.CheckFileAlgorithms] has it.
	Algorithm string
	// Shortest is the least length of a chunk, except for the last of a file: a power of two from
	// 2 KiB to 64 KiB, in bytes. No chunk is longer than 3*Shortest; most are little longer than
	// Shortest.
	Shortest int
	Offset   int64 // where the first chunk begins
	// the last chunk is the first to end there or beyond; 0 means the end of the file
	Length int64
}

// HasChunks reports whether the server lists the chunks of files, as usftp's own does.
func (c *Client) HasChunks() bool { return c.offered(wire.ExtChunks) }

const (
	// listedAtOnce is the average number of chunks that one request lists. The server may not list
	// more than twice as many.
	listedAtOnce = 1024

	// listedFirst is the number of chunks that the first request lists. The host may work on all
	// requests at the same time; the first answer then comes when it has done as much of the
	// others.
	listedFirst = 128

	// listsAhead is the number of requests in flight, so that round trips cost little. Our server
	// has buffers for nine, which copies and the refinement of a delta need too.
	listsAhead = 5

	// alignedWithin is the overlap of one request's part of the file with the next one's, in
	// chunks. Cutting that starts at an arbitrary offset finds the same boundaries as others within
	// a few chunks.
	alignedWithin = 16

	// leastListed is the number of chunks a server must at least list if there are more. A server
	// that listed them one by one would keep us busy forever.
	leastListed = 64
)

// Chunks makes the server cut the open file into chunks, without sending its contents, and yields
// them in order; each begins where the one before it ends. The file must not change in the
// meantime. Chunks takes one round trip for every 1024 chunks or so, with five of them under way at
// a time, and little memory. After an error, which is yielded once, nothing follows. Without the
// extension chunks@usftp the error matches [errors.ErrUnsupported], and with numbers out of range
// [fs.ErrInvalid].
func (f *File) Chunks(what ListChunks) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		open, err := f.opened("chunks", 0)
		switch {
		case err != nil:
		case !open.client.offered(wire.ExtChunks):
			err = f.wrap("chunks", &unsupported{wire.ExtChunks})
		case what.Offset < 0 || what.Length < 0 || what.Shortest < 0 ||
			what.Shortest > wire.MaxChunk || !wire.ValidChunk(uint32(what.Shortest)):
			err = f.wrap("chunks", fs.ErrInvalid)
		}
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		l := &chunkLister{file: f, open: open, ctx: ctx, what: what, next: what.Offset,
			step: int64(listedFirst * what.Shortest), end: math.MaxInt64}
		if what.Length != 0 {
			l.end = what.Offset + min(what.Length, math.MaxInt64-what.Offset)
		}
		if err := l.list(yield); err != nil {
			yield(Chunk{}, err)
		}
	}
}

// A chunkLister lists the chunks of a file with several requests in flight. Only the answer to a
// request shows where its last chunk ends, so the next request starts at an offset of its own, and
// the two overlap: at the first boundary that they share, the list continues with the second.
type chunkLister struct {
	file  *File
	open  *openFile
	ctx   context.Context
	what  ListChunks
	end   int64 // the last chunk is the first to end there or beyond
	next  int64 // where the next request begins
	step  int64 // bytes it lists
	pages []chunkPage
}

// A chunkPage is one request.
type chunkPage struct {
	to    int64 // the last chunk ends there or beyond
	asked *Pending[chunkList]
}

// A chunkList is the answer.
type chunkList struct {
	chunks []Chunk
	end    bool // the file ends after them
}

// to returns where the list ends, or at if it is empty.
func (l *chunkList) to(at int64) int64 {
	if len(l.chunks) == 0 {
		return at
	}
	last := l.chunks[len(l.chunks)-1]
	return last.Offset + int64(last.Length)
}

// list yields chunks until the end of the requested part, or of the file.
func (l *chunkLister) list(yield func(Chunk, error) bool) error {
	for at := l.what.Offset; at < l.end; {
		l.askAhead()
		page := &l.pages[0]
		got, err := page.asked.Wait()
		if err != nil {
			return err
		}
		i, found := slices.BinarySearchFunc(got.chunks, at, func(c Chunk, at int64) int {
			return cmp.Compare(c.Offset, at)
		})
		if !found && got.end && at >= got.to(at) {
			return nil
		}
		for _, c := range got.chunks[i:] {
			if !found {
				break
			}
			if !yield(c, nil) {
				return nil
			}
			if at += int64(c.Length); at >= l.end {
				return nil
			}
		}
		switch {
		case found && got.end:
			return nil
		case found && at >= page.to:
			l.pages = l.pages[1:]
		default: // it listed less, or the two never fell into step; at is before page.to
			page.asked = l.ask(at, page.to)
		}
	}
	return nil
}

// askAhead keeps as many requests in flight as are worthwhile.
func (l *chunkLister) askAhead() {
	for len(l.pages) < listsAhead && (len(l.pages) == 0 || l.next < l.end) {
		from := l.next
		l.next += min(l.step, math.MaxInt64-l.next)
		l.step = min(2*l.step, int64(listedAtOnce*l.what.Shortest))
		to := l.next + min(int64(alignedWithin*l.what.Shortest), math.MaxInt64-l.next)
		l.pages = append(l.pages, chunkPage{min(to, l.end), l.ask(from, min(to, l.end))})
	}
}

func (l *chunkLister) ask(from, to int64) *Pending[chunkList] {
	s := l.open.client
	op := ask(s, "chunks", l.file.Name(), wire.TypeExtendedReply, wire.Chunks{
		Handle: l.open.handle.Name, Algorithms: l.what.Algorithm, Offset: uint64(from),
		Length: uint64(to - from), Shortest: uint32(l.what.Shortest),
	}, func(call *conn.Call) (list chunkList, err error) {
		var reply wire.ChunksReply
		if err := reply.Parse(call.Body); err != nil {
			return list, parse(err)
		}
		return l.take(&reply, from, to)
	})
	return start(l.ctx, op.on(l.open.handle))
}

// take rejects a list that no correct server can have made.
func (l *chunkLister) take(reply *wire.ChunksReply, from, to int64) (list chunkList, err error) {
	if reply.Algorithm != l.what.Algorithm {
		return list, &ProtocolError{
			What: fmt.Sprintf("chunks hashed by %q, which was not requested",
				reply.Algorithm)}
	}
	list = chunkList{chunks: make([]Chunk, 0, reply.Len()), end: reply.End}
	at := from
	for c := range reply.All() {
		if at >= to { // the next list could not begin before its own end
			return list, &ProtocolError{What: "chunks beyond those requested"}
		}
		last := reply.End && len(list.chunks) == reply.Len()-1
		if length := int64(c.Length); length == 0 ||
			length > int64(wire.LongestChunk*l.what.Shortest) ||
			length < int64(l.what.Shortest) && !last || length > math.MaxInt64-at {
			return list, &ProtocolError{What: fmt.Sprintf("a chunk of %d bytes", c.Length)}
		}
		list.chunks = append(list.chunks, Chunk{at, int(c.Length), c.Sum})
		at += int64(c.Length)
	}
	if !reply.End && at < to && len(list.chunks) < leastListed {
		return list, &ProtocolError{What: fmt.Sprintf("an incomplete list of only %d chunks",
			len(list.chunks))}
	}
	return list, nil
}
