package objectfs

import (
	"golang.org/x/sync/semaphore"

	"github.com/usftp/usftp/internal/buffer"
)

// Memory limits what the uploads and downloads of a process hold in memory together.
//
// A file needs memory for a second part while its first one is not complete if its client writes
// out of order. If all files did and waited, none would ever go on. So there is memory that only
// one file uses at a time, when it is its turn. And many files are short: they get by with one
// block each, so that hundreds of them can be stored at once.
type Memory struct {
	parts   *semaphore.Weighted // bytes
	turn    *semaphore.Weighted
	short   *semaphore.Weighted // bytes of files of one block
	ahead   *semaphore.Weighted // bytes that are read ahead
	longest int64               // no part is longer
	blocks  buffer.Pool
	holders holders
}

// NewMemory returns a limit of bytes for parts, at least 32 MiB, and of half as much for reading
// ahead and an eighth for short files. A part takes at most a quarter of bytes, which limits the
// size of files: with 128 MiB to 314 GB, with 1 GiB to 2.1 TB, with 4 GiB to the 5 TiB that S3
// allows.
func NewMemory(bytes int64) *Memory {
	bytes = max(bytes, 4*standard.first)
	longest := standard.first
	for longest < standard.most && longest*2 <= bytes/4 {
		longest *= 2
	}
	return newMemory(bytes, longest)
}

func newMemory(bytes, longest int64) *Memory {
	return &Memory{
		parts:   semaphore.NewWeighted(bytes - inMemory*longest),
		turn:    semaphore.NewWeighted(1),
		short:   semaphore.NewWeighted(bytes / 8),
		ahead:   semaphore.NewWeighted(bytes / 2),
		longest: longest,
	}
}

// take takes memory for a part. The caller holds the lock, which is released while it waits.
func (w *writer) take(index int) error {
	start, length := w.fs.layout.span(index)
	p := newPart(start, length, &w.fs.memory.blocks)
	incomplete := len(w.parts) > w.sending()
	var err error
	switch {
	case index == 0 && length > blockSize && len(w.parts) == 0 &&
		w.fs.memory.short.TryAcquire(blockSize):
		p.short = true
	case !incomplete:
		err = w.acquire(w.fs.memory.parts, length)
	case w.fs.memory.parts.TryAcquire(length):
	case w.turn:
		p.extra = true
	default:
		err = w.acquire(w.fs.memory.turn, 1)
		p.extra, w.turn = true, err == nil
	}
	if err == nil {
		w.parts[index] = p
		w.fs.memory.holders.add(w)
	}
	return err
}

// lengthen lets a part that has one block have them all. The caller holds the lock, which is
// released while it waits.
func (w *writer) lengthen(p *part) error {
	err := w.acquire(w.fs.memory.parts, p.length)
	if err == nil {
		p.short = false
		w.fs.memory.short.Release(blockSize)
	}
	return err
}

// acquire waits for a semaphore, until the session ends, without the lock.
func (w *writer) acquire(s *semaphore.Weighted, n int64) error {
	if s.TryAcquire(n) {
		return nil
	}
	w.taking = true
	w.mu.Unlock()
	done := make(chan struct{})
	go w.fs.memory.holders.watch(done)
	err := s.Acquire(w.session, n)
	close(done)
	w.mu.Lock()
	w.taking = false
	w.changed.Broadcast()
	return err
}

// drop gives back the memory of a part, and the turn as soon as possible. The caller holds the
// lock.
func (w *writer) drop(index int) {
	p := w.parts[index]
	delete(w.parts, index)
	p.drop()
	if len(w.parts) == 0 {
		w.fs.memory.holders.remove(w)
	}
	extra := p.extra
	others := false
	for _, other := range w.parts {
		if other.extra && !extra && !p.short && other.length == p.length {
			other.extra, extra = false, true // its memory is that of p now
		}
		others = others || other.extra
	}
	switch {
	case p.short:
		w.fs.memory.short.Release(blockSize)
	case !extra:
		w.fs.memory.parts.Release(p.length)
	case !others:
		w.turn = false
		w.fs.memory.turn.Release(1)
	}
}
