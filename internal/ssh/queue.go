package ssh

// A queue is data that a channel has received but nobody has read yet. Long pieces stay in the
// block where they were opened, short ones are copied together.
type queue struct {
	pieces []piece
	first  int
	size   int
	spare  []byte // the memory of a short piece that has been read
}

type piece struct {
	data  []byte
	read  int    // how much of it has been read
	block *block // nil if the memory is the queue's own
}

const (
	// shortPiece is the size below which a piece is copied rather than keeping a block for it.
	shortPiece = 1 << 10
	pieceSize  = 4 << 10
)

// push adds data that lies in block or, if that is nil, in memory that will be reused.
func (q *queue) push(data []byte, block *block) {
	q.size += len(data)
	if block != nil && len(data) >= shortPiece {
		block.hold()
		q.pieces = append(q.pieces, piece{data: data, block: block})
		return
	}
	if n := len(q.pieces); n > q.first && q.pieces[n-1].block == nil {
		last := &q.pieces[n-1]
		fits := min(len(data), cap(last.data)-len(last.data))
		last.data = append(last.data, data[:fits]...)
		data = data[fits:]
	}
	if len(data) == 0 {
		return
	}
	mem := q.spare
	if q.spare = nil; cap(mem) < len(data) {
		mem = make([]byte, 0, max(len(data), pieceSize))
	}
	q.pieces = append(q.pieces, piece{data: append(mem, data...)})
}

// read takes data from the queue.
func (q *queue) read(p []byte) (n int) {
	for n < len(p) && q.first < len(q.pieces) {
		first := &q.pieces[q.first]
		m := copy(p[n:], first.data[first.read:])
		n += m
		if first.read += m; first.read < len(first.data) {
			break
		}
		q.drop(first)
		q.first++
	}
	if q.first == len(q.pieces) {
		q.pieces, q.first = q.pieces[:0], 0
	} else if q.first > 64 {
		rest := copy(q.pieces, q.pieces[q.first:])
		clear(q.pieces[rest:])
		q.pieces, q.first = q.pieces[:rest], 0
	}
	q.size -= n
	return n
}

func (q *queue) drop(p *piece) {
	if p.block != nil {
		p.block.release()
	} else if cap(p.data) == pieceSize { // an idle channel keeps no more
		q.spare = p.data[:0]
	}
	*p = piece{}
}

// discard empties the queue.
func (q *queue) discard() {
	for i := q.first; i < len(q.pieces); i++ {
		q.drop(&q.pieces[i])
	}
	*q = queue{}
}
