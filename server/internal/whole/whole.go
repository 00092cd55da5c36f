// Package whole hashes files as they pass.
package whole

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// A Sum is the SHA-256 of a file that passes from its beginning to its end, in order. Of anything
// else there is none: a hash that is wrong would be worse. A nil Sum does nothing.
type Sum struct {
	state  hash.Hash
	passed int64
	end    int64 // where the file was seen to end, or -1
	broken bool
}

// New returns the sum of a file of which nothing has passed.
func New() *Sum { return &Sum{state: sha256.New(), end: -1} }

// Pass adds what has been written to the file, or read from it, at an offset.
func (s *Sum) Pass(data []byte, offset uint64) {
	if s == nil || s.broken {
		return
	}
	if offset != uint64(s.passed) {
		s.Break()
		return
	}
	s.state.Write(data)
	s.passed += int64(len(data))
}

// Break says that the file is not what has passed.
func (s *Sum) Break() {
	if s != nil {
		s.broken, s.state = true, nil
	}
}

// Resize says that the file has been given a size. Up to what has passed only the rest was removed
// or zeros were put behind it, which are no part of it unless they are written, too.
func (s *Sum) Resize(size uint64) {
	if s != nil && size < uint64(s.passed) {
		s.Break()
	}
}

// End says that the file was seen to have nothing at an offset.
func (s *Sum) End(offset uint64) {
	if s != nil && (s.end < 0 || offset < uint64(s.end)) {
		s.end = int64(min(offset, 1<<63-1))
	}
}

// Hex returns the hash, or "" if there is none. size returns that of the file, or -1; it is asked
// only if that matters.
func (s *Sum) Hex(size func() int64) string {
	if s == nil || s.broken || s.end != s.passed && size() != s.passed {
		return ""
	}
	return hex.EncodeToString(s.state.Sum(nil))
}
