// Package whole hashes files as they pass.
package whole

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// A Sum is the SHA-256 of a file that passes from beginning to end, in order. Otherwise there is no
// hash: a wrong one would be worse. A nil Sum does nothing.
type Sum struct {
	state  hash.Hash
	passed int64
	end    int64 // where the file was seen to end, or -1
	broken bool
}

// New returns the sum of a file before its first byte.
func New() *Sum { return &Sum{state: sha256.New(), end: -1} }

// Pass adds data written to the file, or read from it, at an offset.
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

// Break records that the file differs from the bytes that passed.
func (s *Sum) Break() {
	if s != nil {
		s.broken, s.state = true, nil
	}
}

// Resize records that the file's size was set. A size at or beyond the bytes passed only removes or
// adds bytes that have not passed: zeros count only if they are written, too.
func (s *Sum) Resize(size uint64) {
	if s != nil && size < uint64(s.passed) {
		s.Break()
	}
}

// End records that a read at an offset found the end of the file.
func (s *Sum) End(offset uint64) {
	if s != nil && (s.end < 0 || offset < uint64(s.end)) {
		s.end = int64(min(offset, 1<<63-1))
	}
}

// Hex returns the hash, or "" if there is none. size returns the file's size, or -1; it is called
// only if needed.
func (s *Sum) Hex(size func() int64) string {
	if s == nil || s.broken || s.end != s.passed && size() != s.passed {
		return ""
	}
	return hex.EncodeToString(s.state.Sum(nil))
}
